// Weir runs background jobs at the rates that a file writes down, and shows
// what became of them.
package main

import "os"

func main() { os.Exit(newApp().run(os.Args[1:])) }
