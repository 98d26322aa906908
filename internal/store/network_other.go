//go:build !linux

package store

func fileSystem(string) uint32 { return 0 }
