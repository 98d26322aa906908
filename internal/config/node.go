package config

// kind is what a node of the file is.
type kind int

const (
	absent  kind = iota // nothing after the colon, or null
	text                // a string
	number              // an integer or a float, kept as it was written
	boolean             // true or false
	list
	mapping
)

// String names the kind for a person.
func (k kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

// position is where a node or a key stands.
type position struct{ line, column int }

// node is a value of the file: the YAML library's tree, reduced to what a
// configuration needs. An alias is the node that it stands for.
type node struct {
	position

	kind    kind
	damaged bool   // part of it could not be read, which has been told
	value   string // of a scalar, as written
	entries []entry
	items   []*node
}

type entry struct {
	key string
	at  position // of the key
	of  *node
}
