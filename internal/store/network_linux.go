package store

import "syscall"

// fileSystem is the number of the file system that a folder is on; 0: it cannot
// be told.
func fileSystem(folder string) uint32 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(folder, &st); err != nil {
		return 0
	}
	return uint32(st.Type) //nolint:gosec // it has 32 bits, and a sign on some machines
}
