//go:build race

package bucket_test

// Nothing in the package runs concurrently: the race detector gets a tenth of the
// longest simulation, which it slows down tenfold.
func init() { simulated = hour / 10 }
