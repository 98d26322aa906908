package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// exec reads a task's command.
func (s *section) exec(whose, dir string) *Exec {
	const want = `a command, as in {command: ["./run.sh"]}`
	n, ok := s.value("exec", want)
	if !ok {
		return nil
	}
	path := join(s.path, "exec")
	in := s.section(path, n)
	in.misplaced = map[string]string{
		"cmd":  `here it is called "command"`,
		"args": `write the command and its arguments in one list, as in command: ["./run.sh", "--fast"]`,
		"cwd":  `here it is called "dir"`,
	}
	out := &Exec{Dir: dir, Place: s.place(n.position, path)}
	if folder, n, ok := in.text("dir", "a folder"); ok {
		switch {
		case folder == "" || strings.ContainsRune(folder, 0):
			in.fault(BadCommand, n.position, join(path, "dir"), whose+": dir "+quote(folder)+" is no folder", "name one, or leave the key out for the file's own")
		default:
			out.Dir = within(dir, folder)
		}
	}
	if n.kind == mapping && !in.has("command") {
		in.missing(BadCommand, n.position, whose+`: no "command"`, "give "+want)
	}
	out.Command = in.command(whose, dir)
	in.end()
	return out
}

func (s *section) command(whose, dir string) []string {
	const want = `a list of a program and its arguments, as in ["./run.sh", "--fast"]`
	n, ok := s.value("command", want)
	if !ok {
		return nil
	}
	path := join(s.path, "command")
	if n.kind != list {
		s.wrongType("command", n, want)
		return nil
	}
	if len(n.items) == 0 {
		s.fault(BadCommand, n.position, path, whose+": the command is empty", "give "+want)
		return nil
	}
	words := make([]string, 0, len(n.items))
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case item.kind != text && item.kind != number && item.kind != boolean:
			s.wrongTypeAt(at, item, "a word of the command, in quotes if it may be read as something else")
		case i == 0 && strings.TrimSpace(item.value) == "":
			s.fault(BadCommand, item.position, at, whose+": the program's name is empty", "give "+want)
		case strings.ContainsRune(item.value, 0):
			s.fault(BadCommand, item.position, at, fmt.Sprintf("%s: %s holds a NUL character", whose, quote(item.value)), "leave it out")
		default:
			words = append(words, item.value)
		}
	}
	if len(words) < len(n.items) {
		return nil
	}
	// A bare name is looked up in PATH, as a shell does.
	if strings.ContainsAny(words[0], `/`+string(filepath.Separator)) {
		words[0] = within(dir, words[0])
	}
	return words
}

// within makes a path of the file absolute.
func within(dir, path string) string {
	path = filepath.FromSlash(path)
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
