package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// tree converts the YAML library's nodes into ours.
type tree struct {
	*reader

	anchors map[string]*node
}

func positionOf(n ast.Node) position {
	// A mapping's token is the colon after its first key.
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return positionOf(m.Values[0].Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return position{t.Position.Line, t.Position.Column}
	}
	return position{}
}

func (t *tree) convert(n ast.Node, path string) *node {
	at := positionOf(n)
	scalar := func(k kind, value string) *node { return &node{position: at, kind: k, value: value} }
	switch n := n.(type) {
	case *ast.NullNode:
		return scalar(absent, "")
	case *ast.StringNode:
		if n.Token.Type == token.StringType && digits(n.Value) {
			return scalar(number, n.Value) // too great for the parser
		}
		return scalar(text, n.Value)
	case *ast.LiteralNode:
		return scalar(text, n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return scalar(number, n.GetToken().Value)
	case *ast.BoolNode:
		return scalar(boolean, n.Token.Value)
	case *ast.SequenceNode:
		out := &node{position: at, kind: list}
		for i, item := range n.Values {
			out.items = append(out.items, t.convert(item, fmt.Sprintf("%s[%d]", path, i)))
		}
		return out
	case *ast.MappingNode:
		return t.mapping(at, n.Values, path)
	case *ast.MappingValueNode:
		return t.mapping(at, []*ast.MappingValueNode{n}, path)
	case *ast.AnchorNode:
		out := t.convert(n.Value, path)
		// Known from here on: an anchor cannot contain itself.
		t.anchors[n.Name.GetToken().Value] = out
		return out
	case *ast.AliasNode:
		return t.alias(n, path)
	case *ast.TagNode:
		return t.tagged(n, path)
	}
	t.fault(BadYAML, at, path, fmt.Sprintf("%q cannot stand here", oneLine(n.String())), "write a plain value, a list or a mapping")
	return &node{position: at, damaged: true}
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (t *tree) alias(n *ast.AliasNode, path string) *node {
	name := n.Value.GetToken().Value
	if out, ok := t.anchors[name]; ok {
		return out
	}
	t.fault(BadAlias, positionOf(n), path, fmt.Sprintf("alias %q names no anchor above it", "*"+name),
		fmt.Sprintf("write &%s before the value that is meant, above this line", name))
	return &node{position: positionOf(n), damaged: true}
}

// tagged keeps what a standard tag says of a scalar and refuses others.
func (t *tree) tagged(n *ast.TagNode, path string) *node {
	out := &node{position: positionOf(n)}
	if n.Value != nil {
		out = t.convert(n.Value, path)
	}
	switch tag := n.Start.Value; tag {
	case "!!str":
		if out.kind == number || out.kind == boolean {
			out.kind = text
		}
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
	default:
		t.fault(BadYAML, positionOf(n), path, fmt.Sprintf("tag %q is not known", tag), "leave it out")
	}
	return out
}

func (t *tree) mapping(at position, values []*ast.MappingValueNode, path string) *node {
	out := &node{position: at, kind: mapping}
	own := map[string]position{}
	var merged []*node
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, t.merge(v.Value, path)...)
			continue
		}
		keyAt := positionOf(v.Key)
		key, ok := t.key(v.Key, path)
		value := t.convert(v.Value, join(path, key))
		if !ok {
			out.damaged = true
			continue
		}
		if first, twice := own[key]; twice {
			t.fault(DuplicateKey, keyAt, join(path, key), fmt.Sprintf("key %q is there already, on line %d", key, first.line), "keep one of them")
			continue
		}
		own[key] = keyAt
		out.entries = append(out.entries, entry{key, keyAt, value})
	}
	// What the mapping says itself beats what it merges in.
	for _, m := range merged {
		out.damaged = out.damaged || m.damaged
		for _, e := range m.entries {
			if _, there := own[e.key]; !there {
				own[e.key] = e.at
				out.entries = append(out.entries, e)
			}
		}
	}
	return out
}

// key is the name that a mapping's key is, as it was written.
func (t *tree) key(n ast.MapKeyNode, path string) (string, bool) {
	var inner ast.Node = n
	if k, ok := n.(*ast.MappingKeyNode); ok {
		inner = k.Value
	}
	if inner != nil {
		if out := t.convert(inner, path); out.kind == text || out.kind == number || out.kind == boolean {
			return out.value, true
		}
	}
	t.fault(WrongType, positionOf(n), path, "a key that is not text", "write a name before the colon")
	return "", false
}

// merge returns the mappings that "<<" brings in.
func (t *tree) merge(n ast.Node, path string) []*node {
	from := t.convert(n, path)
	mappings := []*node{from}
	if from.kind == list {
		mappings = from.items
	}
	for _, m := range mappings {
		if m.kind != mapping && !m.damaged {
			t.fault(BadAlias, positionOf(n), path, fmt.Sprintf("<< takes a mapping, and this is %s", m.kind), `write << with an alias of a mapping, as in "<<: *defaults"`)
			return []*node{{damaged: true}}
		}
	}
	return mappings
}

// join makes the path of a key; a name with dots or blanks is quoted in it.
func join(path, key string) string {
	plain := key != "" && strings.IndexFunc(key, func(c rune) bool {
		return !(c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}) < 0
	if !plain {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
