package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Code names a kind of finding. Codes are stable: scripts may compare them.
type Code string

// Faults of the file as a whole, and of its YAML.
const (
	Unreadable   Code = "W101" // the file cannot be read
	BadYAML      Code = "W102" // it is not YAML
	TooBig       Code = "W103" // more of it than any configuration needs
	DuplicateKey Code = "W104"
	BadAlias     Code = "W105" // an alias or a merge that leads nowhere
)

// Faults of keys and their types.
const (
	UnknownKey Code = "W111"
	WrongType  Code = "W112"
	NotServed  Code = "W113" // a later version's key
	MissingKey Code = "W114"
)

// Faults of values.
const (
	BadRate        Code = "W121"
	BadBurst       Code = "W122" // out of range, or without a rate
	BadExcess      Code = "W123"
	BadDefer       Code = "W124"
	BadName        Code = "W125"
	ReservedName   Code = "W126"
	BadDuration    Code = "W127"
	BadNumber      Code = "W128"
	BadBackoff     Code = "W129"
	BadDatabase    Code = "W130"
	BadStrategy    Code = "W131"
	BadCommand     Code = "W132"
	NoTarget       Code = "W133"
	SeveralTargets Code = "W134"
	BadMigrate     Code = "W135"
	BadURL         Code = "W136"
	BadHeader      Code = "W137"
	BadCron        Code = "W138"
	BadZone        Code = "W139"
	BadMissed      Code = "W140"
)

// Faults between the parts of a file.
const (
	UnknownTask  Code = "W141" // a limit or a schedule names a task that the file does not declare
	UnknownQueue Code = "W142"
	CoversNone   Code = "W143"
)

// Faults under a strategy.
const (
	OtherStrategy   Code = "W151" // a key or a value that belongs to the other one
	BadPeriod       Code = "W152" // of a window
	BadCount        Code = "W153" // of a window: it is whole
	SameButCase     Code = "W154" // two limits whose names differ only by case
	MixedStrategies Code = "W155" // several files on one database, with two strategies
)

// Warnings: the file works, but hardly as it was meant to.
const (
	NarrowBurst Code = "W201" // ordinary delays cost a good part of the rate
	NoProgram   Code = "W202" // the command's program or folder is not there
	NoEffect    Code = "W203" // a key of a task that another process runs
	NamedTwice  Code = "W204"
	IdleRate    Code = "W205" // a rate of a list that another one makes superfluous
	NothingRuns Code = "W206" // serve would have nothing to do
	NoFolder    Code = "W207" // the database's folder is not there
	Ignored     Code = "W208" // a key that this version reads and does not use
)

// Warnings under the fixed-window strategy.
const (
	OtherPeriod Code = "W211" // a limit of the same name has another period in another file on the same database
	OtherCount  Code = "W212" // ... has another count
	AlikeNames  Code = "W213" // two names differ only by case or accents
	ManyWorkers Code = "W214" // the number of workers is a good part of the limit
	HalfExact   Code = "W215" // a limit of the same name is exact in one file on a database, and not in another
)

// A Place is where in a file something stands.
type Place struct {
	File   string // as it was given
	Line   int    // from 1; 0: the file as a whole
	Column int    // from 1
	Key    string // such as "tasks.send_email.rate_limit"; "": no key
}

// String is FILE:LINE:COLUMN.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// A Finding is one fault of a file, or one thing to look at.
type Finding struct { //nolint:errname // a warning is one too, and no error
	Code    Code
	Place   Place
	Message string // what is wrong, the offending text quoted
	Mend    string // what to write instead

	cause error
}

// Error puts the finding on one line:
//
//	weir.yaml:3:17: W121 tasks.send_email.rate_limit: task "send_email": rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"
func (f Finding) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s ", f.Place, f.Code)
	if f.Place.Key != "" {
		b.WriteString(f.Place.Key + ": ")
	}
	b.WriteString(f.Message)
	if f.Mend != "" {
		b.WriteString(": " + f.Mend)
	}
	return b.String()
}

// Unwrap is what a package below said of the value, if one did.
func (f Finding) Unwrap() error { return f.cause }

// A FileError holds every fault of a file, in the order of the file.
type FileError struct {
	File     string
	Findings []Finding
}

// Error lists the faults, a line each.
func (e *FileError) Error() string {
	lines := make([]string, 0, len(e.Findings)+1)
	if len(e.Findings) > 1 {
		lines = append(lines, fmt.Sprintf("%s: %d faults", e.File, len(e.Findings)))
	}
	for _, f := range e.Findings {
		lines = append(lines, f.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the findings.
func (e *FileError) Unwrap() []error {
	errs := make([]error, len(e.Findings))
	for i, f := range e.Findings {
		errs[i] = f
	}
	return errs
}

// inOrder sorts findings as a reader meets them in the file.
func inOrder(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Column, b.Place.Column))
	})
}
