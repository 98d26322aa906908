// Command testlog turns the output of "go test -json" back into what "go test"
// prints: a line per package, and the output of what failed. It adds what a
// plain run hides, the tests that were skipped and why, and a closing tally.
//
//	go test -json ./... | testlog [-v] [-noskips]
//
// It exits with 1 when a test or a package failed; with -noskips also when a
// test was skipped or none ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	verbose := flag.Bool("v", false, "print all output, as go test -v does")
	noSkips := flag.Bool("noskips", false, "fail when a test was skipped or none ran")
	flag.Parse()

	tally, err := convert(os.Stdin, os.Stdout, *verbose)
	if err != nil {
		fmt.Fprintf(os.Stderr, "testlog: read the output of go test -json: %v\n", err)
		os.Exit(1)
	}
	if !tally.ok(*noSkips) {
		os.Exit(1)
	}
}

// event is what we read of a line of "go test -json"; see "go doc test2json".
type event struct {
	Action  string `json:"action"`
	Package string `json:"package"`
	Test    string `json:"test"`
	Output  string `json:"output"`
}

// tally counts tests, subtests included, and packages that failed without a
// failing test, or amid one: they did not build, or their process died.
type tally struct {
	passed, failed, skipped, broken int
}

func (t tally) ok(noSkips bool) bool {
	if t.failed > 0 || t.broken > 0 {
		return false
	}

	return !noSkips || (t.skipped == 0 && t.passed > 0)
}

func (t tally) String() string {
	text := fmt.Sprintf("tests: %d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
	switch t.broken {
	case 0:
		return text
	case 1:
		return text + ", 1 package broken"
	}

	return fmt.Sprintf("%s, %d packages broken", text, t.broken)
}

// convert reads events from r and prints them to w. A line that is no event is
// printed as it is.
func convert(r io.Reader, w io.Writer, verbose bool) (tally, error) {
	out := bufio.NewWriter(w)
	c := converter{out: out, verbose: verbose, packages: map[string]*pkg{}}

	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			c.line(line)
			if flushErr := out.Flush(); flushErr != nil {
				return c.tally, fmt.Errorf("print: %w", flushErr)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return c.tally, fmt.Errorf("read: %w", err)
		}
	}

	c.close()
	if err := out.Flush(); err != nil {
		return c.tally, fmt.Errorf("print: %w", err)
	}

	return c.tally, nil
}

// pkg is what a package under test has said so far and not yet printed.
type pkg struct {
	output  []string            // outside of any test
	tests   map[string][]string // by name, while the test runs, and what came after its end
	order   []string            // names in tests, oldest first
	running map[string]bool
	failed  bool // a test of it has failed
}

type converter struct {
	out      *bufio.Writer
	verbose  bool
	packages map[string]*pkg
	skips    []string
	tally    tally
}

func (c *converter) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		c.print(string(line))

		return
	}
	switch {
	case e.Action == "build-output":
		c.print(e.Output)
	case e.Package == "":
		return
	case e.Test == "":
		c.packageEvent(e)
	default:
		c.testEvent(e)
	}
}

func (c *converter) packageEvent(e event) {
	p := c.pkg(e.Package)
	switch e.Action {
	case "output":
		if c.verbose {
			c.print(e.Output)

			return
		}
		p.output = append(p.output, e.Output)
	case "pass", "skip": // skip: it has no test files
		for _, line := range p.output {
			if isSummary(line) {
				c.print(line)
			}
		}
		delete(c.packages, e.Package)
	case "fail":
		c.cutShort(e.Package, p)
	}
}

func (c *converter) testEvent(e event) {
	p := c.pkg(e.Package)
	switch e.Action {
	case "run":
		p.running[e.Test] = true

		return
	case "output":
		if c.verbose {
			c.print(e.Output)
		}
		p.add(e.Test, e.Output, c.verbose)

		return
	case "pass":
		c.tally.passed++
	case "fail":
		c.tally.failed++
		p.failed = true
		c.print(p.tests[e.Test]...)
	case "skip":
		c.tally.skipped++
		c.skips = append(c.skips, fmt.Sprintf("%s %s\n%s", e.Package, e.Test, strings.Join(p.tests[e.Test], "")))
	default:
		return
	}
	p.forget(e.Test)
}

// cutShort prints what is left of a package that failed. Tests that have no end
// are named: a panic, a signal, os.Exit or the timeout came in between.
func (c *converter) cutShort(name string, p *pkg) {
	if len(p.running) > 0 || !p.failed {
		c.tally.broken++
	}
	for _, test := range slices.Sorted(maps.Keys(p.running)) {
		c.print("no end: " + name + " " + test + "\n")
	}
	for _, test := range p.order {
		c.print(p.tests[test]...)
	}
	c.print(p.output...)
	delete(c.packages, name)
}

// close prints what a run that was cut off left behind, the skips and the tally.
func (c *converter) close() {
	for _, name := range slices.Sorted(maps.Keys(c.packages)) {
		c.packages[name].failed = false
		c.cutShort(name, c.packages[name])
		c.print("FAIL\t" + name + " [no result]\n")
	}
	for _, skip := range c.skips {
		c.print("skipped: " + skip)
	}
	c.print(c.tally.String() + "\n")
}

func (c *converter) pkg(name string) *pkg {
	p := c.packages[name]
	if p == nil {
		p = &pkg{tests: map[string][]string{}, running: map[string]bool{}}
		c.packages[name] = p
	}

	return p
}

// print leaves a failed write to the next Flush, which reports it.
func (c *converter) print(lines ...string) {
	for _, line := range lines {
		_, _ = c.out.WriteString(line)
	}
}

// add keeps a line for the case that the test fails or is skipped.
func (p *pkg) add(test, line string, printed bool) {
	lines, known := p.tests[test]
	if !known {
		p.order = append(p.order, test)
	}
	if !printed && !isProgress(line) {
		lines = append(lines, line)
	}
	p.tests[test] = lines
}

func (p *pkg) forget(test string) {
	delete(p.tests, test)
	delete(p.running, test)
	for i, name := range p.order {
		if name == test {
			p.order = append(p.order[:i], p.order[i+1:]...)

			return
		}
	}
}

// isProgress tells lines that a run without -v does not print.
func isProgress(line string) bool {
	line = strings.TrimSpace(line)
	for _, prefix := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}

	return false
}

// isSummary tells the line that go test prints for a package that passed.
func isSummary(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") || strings.HasPrefix(line, "\t")
}
