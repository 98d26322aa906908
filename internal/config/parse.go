package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The YAML parser's time grows with the square of some things, and its stack
// with the depth: these bounds keep a damaged file from hanging the program.
// A file of two thousand tasks stays below them.
const (
	maxBytes      = 1 << 20
	maxTokens     = 40_000
	maxDepth      = 64    // of brackets, or of what begins on one line
	maxProperties = 1_000 // anchors, aliases, tags and explicit keys
)

// parse reads YAML into a node; nil where there is nothing to go on with.
func (r *reader) parse(data []byte) (root *node) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) // the parser miscounts lines otherwise
	if len(data) > maxBytes {
		r.fault(TooBig, position{}, "", fmt.Sprintf("the file has %d bytes", len(data)), fmt.Sprintf("use at most %d", maxBytes))
		return nil
	}
	if at, ok := invalidText(data); !ok {
		r.fault(BadYAML, at, "", "not UTF-8 text", "save the file as UTF-8")
		return nil
	}
	defer func() {
		// The library is given bytes by whoever wrote the file.
		if p := recover(); p != nil {
			r.fault(BadYAML, position{}, "", fmt.Sprintf("cannot be read as YAML (%v)", p), "check its indentation and its brackets")
			root = nil
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if at, problem := tooDeep(tokens); problem != "" {
		r.fault(TooBig, at, "", problem, "no configuration needs that: write it more plainly")
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	return r.document(file)
}

// invalidText finds the first byte that is not UTF-8, or is NUL.
func invalidText(data []byte) (position, bool) {
	if utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
		return position{}, true
	}
	at := position{1, 1}
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		if c == 0 || c == utf8.RuneError && size == 1 {
			break
		}
		at.column++
		if c == '\n' {
			at = position{at.line + 1, 1}
		}
		data = data[size:]
	}
	return at, false
}

// tooDeep refuses what the parser would take very long for.
func tooDeep(tokens token.Tokens) (position, string) {
	brackets, properties, line, onLine := 0, 0, 0, 0
	for i, t := range tokens {
		at := position{t.Position.Line, t.Position.Column}
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(brackets-1, 0)
		case token.AnchorType, token.AliasType, token.TagType, token.MappingKeyType, token.MergeKeyType:
			properties++
		case token.SequenceEntryType, token.MappingValueType:
			if brackets == 0 {
				onLine++
			}
		default:
		}
		switch {
		case i >= maxTokens:
			return at, fmt.Sprintf("more than %d keys, values and signs", maxTokens)
		case brackets > maxDepth || onLine > maxDepth:
			return at, fmt.Sprintf("more than %d levels deep", maxDepth)
		case properties > maxProperties:
			return at, fmt.Sprintf("more than %d anchors, aliases, tags and explicit keys", maxProperties)
		}
	}
	return position{}, ""
}

// syntax reports the parser's error; it stops at the first.
func (r *reader) syntax(err error) {
	const mend = "correct the YAML here; what follows was not read"
	if located, ok := errors.AsType[yaml.Error](err); ok {
		at := position{}
		if t := located.GetToken(); t != nil && t.Position != nil {
			at = position{t.Position.Line, t.Position.Column}
		}
		r.fault(BadYAML, at, "", "not YAML: "+oneLine(located.GetMessage()), mend)
		return
	}
	r.fault(BadYAML, position{}, "", "not YAML: "+oneLine(err.Error()), mend)
}

// oneLine keeps a message of another package short.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

// document converts the one document of a file.
func (r *reader) document(file *ast.File) *node {
	t := tree{reader: r, anchors: map[string]*node{}}
	var root *node
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if root != nil {
			r.fault(BadYAML, positionOf(d.Body), "", "a second document", "keep one document in a file, without a line of ---")
			break
		}
		root = t.convert(d.Body, "")
	}
	if root == nil {
		return &node{position: position{1, 1}}
	}
	return root
}
