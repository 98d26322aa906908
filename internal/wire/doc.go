// Package wire holds the forms in which jobs and dead letters leave Weir and
// ids come back: JSON with stable names, times to the microsecond, arguments,
// cursors. The packages queue and dlq share them without knowing each other.
package wire
