package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryLogEventStandsInThePageWithItsKeys reads the events out of the code:
// calls of a logger whose message is a name.
func TestEveryLogEventStandsInThePageWithItsKeys(t *testing.T) {
	inCode := map[string]string{}
	for _, folder := range []string{"../../scheduler", "../../queue", "../../dlq", "../../internal", "."} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					addEvent(inCode, call)
				}
				return true
			})
			return nil
		}))
	}

	page, err := os.ReadFile("../../docs/events.md")
	require.NoError(t, err)
	inPage := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(string(page), -1) {
		inPage[row[1]] = strings.TrimSpace(row[2] + " " + strings.ReplaceAll(strings.TrimSpace(row[3]), "`", ""))
	}
	require.Equal(t, inCode, inPage)
}

var eventName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

func addEvent(events map[string]string, call *ast.CallExpr) {
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	level := strings.ToLower(fn.Sel.Name)
	name, ok := literal(call.Args[0])
	if !ok || !eventName.MatchString(name) || !slices.Contains([]string{"debug", "info", "warn", "error", "say"}, level) {
		return
	}
	first := 1
	if level == "say" { // to people as well: a sentence comes first
		level, first = "info", 2
	}
	keys := []string{level}
	for i := first; i < len(call.Args); i += 2 {
		if key, ok := literal(call.Args[i]); ok {
			keys = append(keys, key)
		}
	}
	events[name] = strings.Join(keys, " ")
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
