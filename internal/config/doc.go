// Package config reads Weir's configuration file, and turns it into options
// and handlers of a scheduler.
//
// All faults of a file are reported at once. Each is a [Finding]: a stable
// code, the place (file, line, column, key), what is wrong, and the mend.
// Nothing is guessed: an unknown key, a key given twice or a rate that cannot
// be read is a fault, never a default.
package config
