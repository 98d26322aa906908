package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// readOnly is a file that is made read-only under the processes that have it
// open, as a file system does that has found an error. No mode of the file does
// that, only its attribute "immutable", which root alone may set.
func readOnly(ctx context.Context, s *sea) (outcome, error) {
	probe := filepath.Join(s.dir, "probe")
	file, err := appendTo(probe)
	if err != nil {
		return outcome{}, err
	}
	defer file.Close()
	s.atEnd(func() { _ = chattr(context.WithoutCancel(ctx), "-i", probe) })
	err = chattr(ctx, "+i", probe)
	if _, e := file.WriteString("x"); err != nil || e == nil {
		return outcome{}, missing("a file cannot be made immutable: it takes root, chattr, and a file system that knows it")
	}
	set := func(how string) func() error {
		return func() error { return chattr(context.WithoutCancel(ctx), how, s.file(), s.file()+"-wal") }
	}
	s.atEnd(func() { _ = set("-i")() })
	return s.unwritable(ctx, s.file(), set("+i"), set("-i"))
}

func chattr(ctx context.Context, args ...string) error {
	if os.Getuid() != 0 {
		return os.ErrPermission
	}
	if out, err := exec.CommandContext(ctx, "chattr", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("chattr: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
