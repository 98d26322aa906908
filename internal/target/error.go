package target

import "strings"

// An Error is a command that failed, or was stopped.
type Error struct {
	Status string // "exit status 3", "signal: killed"
	Stderr string // the end of what it wrote to standard error

	cause error // why it was stopped
}

// Error begins with a line of its own that is alike for alike failures: the
// status and the last line of standard error. All of its end follows where
// there is more.
//
//	exit status 7: curl: (7) Failed to connect to localhost port 9
func (e *Error) Error() string {
	text := e.Status
	if e.cause != nil {
		text = "stopped: " + e.cause.Error() + " (" + e.Status + ")"
	}
	stderr := strings.TrimRight(e.Stderr, " \t\r\n")
	if stderr == "" {
		return text
	}
	i := strings.LastIndexByte(stderr, '\n')
	text += ": " + strings.TrimSpace(stderr[i+1:])
	if i >= 0 {
		text += "\n" + stderr
	}
	return text
}

// Unwrap is why the command was stopped, if it was.
func (e *Error) Unwrap() error { return e.cause }
