package main

import (
	"strings"
	"testing"
)

// lines is a run as go test -json writes it, from "action package test output".
func lines(events ...[4]string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(`{"Action":"` + e[0] + `","Package":"` + e[1] + `"`)
		if e[2] != "" {
			b.WriteString(`,"Test":"` + e[2] + `"`)
		}
		if e[3] != "" {
			b.WriteString(`,"Output":"` + e[3] + `\n"`)
		}
		b.WriteString("}\n")
	}

	return b.String()
}

func TestARunIsPrintedAsGoTestPrintsIt(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name    string
		in      string
		verbose bool
		want    string
		tally   tally
	}{
		{
			name: "what passed is one line",
			in: lines(
				[4]string{"start", "p"},
				[4]string{"output", "p", "TestA", "=== RUN   TestA"},
				[4]string{"output", "p", "TestA", "    a_test.go:1: said"},
				[4]string{"output", "p", "TestA", "--- PASS: TestA (0.00s)"},
				[4]string{"pass", "p", "TestA"},
				[4]string{"output", "p", "", "PASS"},
				[4]string{"output", "p", "", `ok  \tp\t0.1s`},
				[4]string{"pass", "p"},
			),
			want:  "ok  \tp\t0.1s\ntests: 1 passed, 0 failed, 0 skipped\n",
			tally: tally{passed: 1},
		},
		{
			name: "verbose keeps everything",
			in: lines(
				[4]string{"output", "p", "TestA", "=== RUN   TestA"},
				[4]string{"pass", "p", "TestA"},
				[4]string{"output", "p", "", "PASS"},
				[4]string{"output", "p", "", `ok  \tp\t0.1s`},
				[4]string{"pass", "p"},
			),
			verbose: true,
			want:    "=== RUN   TestA\nPASS\nok  \tp\t0.1s\ntests: 1 passed, 0 failed, 0 skipped\n",
			tally:   tally{passed: 1},
		},
		{
			name: "of a failed package only what failed",
			in: lines(
				[4]string{"output", "p", "TestA", "=== RUN   TestA"},
				[4]string{"output", "p", "TestB", "=== RUN   TestB"},
				[4]string{"output", "p", "TestA", "    a_test.go:1: said"},
				[4]string{"output", "p", "TestB", "    b_test.go:1: wrong"},
				[4]string{"output", "p", "TestB", "--- FAIL: TestB (0.00s)"},
				[4]string{"pass", "p", "TestA"},
				[4]string{"fail", "p", "TestB"},
				[4]string{"output", "p", "", `FAIL\tp\t0.1s`},
				[4]string{"fail", "p"},
			),
			want: "    b_test.go:1: wrong\n--- FAIL: TestB (0.00s)\nFAIL\tp\t0.1s\n" +
				"tests: 1 passed, 1 failed, 0 skipped\n",
			tally: tally{passed: 1, failed: 1},
		},
		{
			name: "a skip is named, with its reason",
			in: lines(
				[4]string{"output", "p", "TestA", "    a_test.go:1: no database"},
				[4]string{"skip", "p", "TestA"},
				[4]string{"output", "p", "", `ok  \tp\t0.1s`},
				[4]string{"pass", "p"},
			),
			want: "ok  \tp\t0.1s\nskipped: p TestA\n    a_test.go:1: no database\n" +
				"tests: 0 passed, 0 failed, 1 skipped\n",
			tally: tally{skipped: 1},
		},
		{
			name: "a package without test files is no skipped test",
			in: lines(
				[4]string{"output", "p", "", `?   \tp\t[no test files]`},
				[4]string{"skip", "p"},
			),
			want: "?   \tp\t[no test files]\ntests: 0 passed, 0 failed, 0 skipped\n",
		},
		{
			name: "a process that died by a signal shows go's line and the tests that were running",
			in: lines(
				[4]string{"run", "p", "TestA"},
				[4]string{"output", "p", "TestA", "=== RUN   TestA"},
				[4]string{"run", "p", "TestB"},
				[4]string{"output", "p", "TestB", "    b_test.go:1: said"},
				[4]string{"pass", "p", "TestB"},
				[4]string{"output", "p", "TestB", "signal: killed"}, // test2json takes it for the latest test's
				[4]string{"output", "p", "", `FAIL\tp\t0.1s`},
				[4]string{"fail", "p"},
			),
			want:  "no end: p TestA\nsignal: killed\nFAIL\tp\t0.1s\ntests: 1 passed, 0 failed, 0 skipped, 1 package broken\n",
			tally: tally{passed: 1, broken: 1},
		},
		{
			name: "a process that died after a test had failed is broken too",
			in: lines(
				[4]string{"run", "p", "TestA"},
				[4]string{"output", "p", "TestA", "--- FAIL: TestA (0.00s)"},
				[4]string{"fail", "p", "TestA"},
				[4]string{"run", "p", "TestB"},
				[4]string{"output", "p", "TestB", "panic: oh"},
				[4]string{"output", "p", "", `FAIL\tp\t0.1s`},
				[4]string{"fail", "p"},
			),
			want:  "--- FAIL: TestA (0.00s)\nno end: p TestB\npanic: oh\nFAIL\tp\t0.1s\ntests: 0 passed, 1 failed, 0 skipped, 1 package broken\n",
			tally: tally{failed: 1, broken: 1},
		},
		{
			name: "a process that ends badly after its tests says what it said",
			in: lines(
				[4]string{"run", "p", "TestA"},
				[4]string{"pass", "p", "TestA"},
				[4]string{"output", "p", "", "found unexpected goroutines"},
				[4]string{"output", "p", "", `FAIL\tp\t0.1s`},
				[4]string{"fail", "p"},
			),
			want:  "found unexpected goroutines\nFAIL\tp\t0.1s\ntests: 1 passed, 0 failed, 0 skipped, 1 package broken\n",
			tally: tally{passed: 1, broken: 1},
		},
		{
			name: "a run that was cut off is a failure",
			in: lines(
				[4]string{"output", "q", "", "said"},
				[4]string{"run", "p", "TestA"},
				[4]string{"output", "p", "TestA", "    a_test.go:1: said"},
			) + "not json",
			want: "not jsonno end: p TestA\n    a_test.go:1: said\nFAIL\tp [no result]\nsaid\nFAIL\tq [no result]\n" +
				"tests: 0 passed, 0 failed, 0 skipped, 2 packages broken\n",
			tally: tally{broken: 2},
		},
		{
			name: "what does not build says why",
			in: `{"ImportPath":"p","Action":"build-output","Output":"# p\n"}` + "\n" + lines(
				[4]string{"output", "p", "", `FAIL\tp [build failed]`},
				[4]string{"fail", "p"},
			),
			want:  "# p\nFAIL\tp [build failed]\ntests: 0 passed, 0 failed, 0 skipped, 1 package broken\n",
			tally: tally{broken: 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			var out strings.Builder
			got, err := convert(strings.NewReader(tc.in), &out, tc.verbose)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), tc.want)
			}
			if got != tc.tally {
				t.Errorf("counted %+v, want %+v", got, tc.tally)
			}
		})
	}
}

func TestSkipsAndEmptyRunsFailOnlyWhereAsked(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name            string
		tally           tally
		usually, strict bool
	}{
		{"passed", tally{passed: 1}, true, true},
		{"skipped", tally{passed: 1, skipped: 1}, true, false},
		{"empty", tally{}, true, false},
		{"failed", tally{passed: 1, failed: 1}, false, false},
		{"broken", tally{passed: 1, broken: 1}, false, false},
	} {
		if got := tc.tally.ok(false); got != tc.usually {
			t.Errorf("%s: ok is %v, want %v", tc.name, got, tc.usually)
		}
		if got := tc.tally.ok(true); got != tc.strict {
			t.Errorf("%s: ok without skips is %v, want %v", tc.name, got, tc.strict)
		}
	}
}
