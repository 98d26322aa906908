package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

var errDeclined = errors.New("nothing was done")

// confirm asks somebody at a terminal; elsewhere there is nobody to ask.
func (a *app) confirm(yes bool, question string) error {
	if yes || !a.inTerminal {
		return nil
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}
