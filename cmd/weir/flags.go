package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirq/weir/internal/suggest"
)

// flagError says what is wrong with a flag, and what is right.
func flagError(cmd *cobra.Command, err error) error {
	help := "see " + cmd.CommandPath() + " --help"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		name := unknown.GetSpecifiedName()
		if near := suggest.Nearest(name, flagNames(cmd)); near != "" {
			return wrong(cmd, "unknown flag --%s: did you mean --%s?", name, near)
		}
		return wrong(cmd, "unknown flag --%s: %s", name, help)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrong(cmd, "--%s %.80q: %s", invalid.GetFlag().Name, invalid.GetValue(), rightValue(invalid.GetFlag().Value.Type(), err))
	}
	return wrong(cmd, "%w: %s", err, help)
}

const wantTime = "write a time with its unit (s, m or h), as in 30s or 1h30m"

// rightValue says what a flag of a type takes.
func rightValue(kind string, err error) string {
	switch kind {
	case "int", "int64":
		if errors.Is(err, strconv.ErrRange) {
			return "it is too great"
		}
		return "use a whole number, in plain digits"
	case "duration":
		return wantTime
	case "bool":
		return "use true or false"
	}
	return errors.Unwrap(err).Error()
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
