package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachRuleOfFixedWindowsNamesTestsThatAreThere reads the tables of the page.
func TestEachRuleOfFixedWindowsNamesTestsThatAreThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/fixed-window.md")
	require.NoError(t, err)
	rules := regexp.MustCompile("(?m)^\\| ([^|]+) \\|[^|]*\\| `([a-z/]+)` \\|(.*)\\|$").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(rules), 60)
	tests := map[string]string{} // by package
	for _, rule := range rules {
		of, names := rule[2], regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(rule[3], -1)
		require.NotEmpty(t, names, "rule %s", rule[1])
		if _, read := tests[of]; !read {
			tests[of] = testsOf(t, filepath.Join("../..", of))
		}
		for _, name := range names {
			require.Contains(t, tests[of], "\nfunc "+name[1]+"(", "rule %s", rule[1])
		}
	}
}

// testsOf is the text of a package's tests.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
