//go:build !linux

package main

// disk is a file system of that size.
func (*sea) disk(string) (string, error) {
	return "", missing("a file system of a given size is made on Linux alone")
}
