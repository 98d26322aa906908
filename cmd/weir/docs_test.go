package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// goBlocks are the pieces of Go in a page, without their indentation.
func goBlocks(t *testing.T, path string) []string {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	var blocks []string
	for _, m := range goBlock.FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, flat(m[1]))
	}
	require.NotEmpty(t, blocks, path)
	return blocks
}

// flat takes the indentation away.
func flat(code string) string {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

func TestTheProgramOfTheReadmeIsCompiled(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../examples/first/main.go")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(example), "\npackage main\n") // behind its comment
	assert.Equal(t, []string{flat("package main\n" + program)}, goBlocks(t, "../../README.md"), "README.md and examples/first/main.go differ")
}

func TestEveryPieceOfTheLibraryPageIsCompiled(t *testing.T) {
	t.Parallel()
	var compiled strings.Builder
	for _, pattern := range []string{"../../queue/example*_test.go", "../../queue/queuetest/example*_test.go", "../../scheduler/example*_test.go", "../../dlq/example*_test.go", "../../examples/tested/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, path := range files {
			code, err := os.ReadFile(path)
			require.NoError(t, err)
			compiled.WriteString("\n" + flat(string(code)) + "\n")
		}
	}
	for _, block := range goBlocks(t, "../../docs/library.md") {
		assert.Contains(t, compiled.String(), "\n"+block+"\n", "no example has this piece:\n%s", block)
	}
}
