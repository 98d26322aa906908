package target

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode"
)

// Problem says why the command cannot start on this machine, and how to mend
// it; it is empty where nothing is to be seen.
func (e Exec) Problem() (problem, mend string) {
	if info, err := os.Stat(e.Dir); e.Dir != "" && (err != nil || !info.IsDir()) {
		return "there is no folder " + strconv.Quote(e.Dir), "make it, or correct dir"
	}
	program := e.Command[0]
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return scriptProblem(path)
	case filepath.Base(program) == program:
		return "no program " + strconv.Quote(program) + " in PATH", "install it, or write ./" + program + " for one beside the file"
	}
	info, err := os.Stat(program)
	switch {
	case err != nil:
		return "there is no program " + strconv.Quote(program), "make it, or correct the command: a path counts from the folder of the file"
	case info.IsDir():
		return strconv.Quote(program) + " is a folder", "name the program in it"
	}
	return strconv.Quote(program) + " cannot be executed", "make it executable: chmod +x " + program
}

// scriptProblem looks at what a Unix system reads of a program first.
func scriptProblem(path string) (problem, mend string) {
	f, err := os.Open(path) //nolint:gosec // the operator's program
	if err != nil || runtime.GOOS == "windows" {
		return "", "" // one may execute what one may not read
	}
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	_ = f.Close()
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	line, isScript := strings.CutPrefix(line, "#!")
	interpreter, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	_, missing := os.Stat(interpreter)
	switch {
	case !isScript && bytes.ContainsFunc(head[:n], isBinary):
		return "", ""
	case !isScript:
		return strconv.Quote(path) + " does not say what runs it", "let it begin with a line such as #!/bin/sh"
	case strings.HasSuffix(line, "\r"):
		return strconv.Quote(path) + " has the line ends of Windows", "save it with those of Unix"
	case missing != nil:
		return strconv.Quote(path) + " is to be run by " + strconv.Quote(interpreter) + ", which is not there", "install that, or correct the first line"
	}
	return "", ""
}

// isBinary tells a character that no script has.
func isBinary(c rune) bool { return c < ' ' && !unicode.IsSpace(c) && c != '\x1b' }
