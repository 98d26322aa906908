package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// mountsEnv is set in a namespace in which file systems may be mounted, which
// scripts/soak makes: nothing is left behind there.
const mountsEnv = "WEIR_SOAK_MOUNTS"

// disk is a file system of that size.
func (s *sea) disk(size string) (string, error) {
	if os.Getenv(mountsEnv) == "" {
		return "", missing("a file system cannot be mounted here, in a namespace of the user's own")
	}
	path := filepath.Join(s.dir, "disk")
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", err
	}
	if err := syscall.Mount("weir", path, "tmpfs", 0, "size="+size); err != nil {
		return "", fmt.Errorf("mount a file system of %s: %w", size, err)
	}
	s.atEnd(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
	return path, nil
}
