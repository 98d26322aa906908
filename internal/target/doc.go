// Package target holds what can run a job outside the program: a command.
package target
