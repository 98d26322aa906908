package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// posts is a file with one task that is posted there, in quotes.
func posts(url, headers string) string {
	return fmt.Sprintf("tasks:\n  t:\n    http: {url: %q, headers: {%s}}\n", url, headers)
}

func TestAURLIsAnAbsoluteOneOfHTTPWithoutCredentials(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"http://127.0.0.1:9000/send", "https://example.com", "http://h:80/a%20b?x=1&y=2", "http://[::1]:8080/", "HTTPS://Example.com/", "http://bücher.example/", "http://h:/",
	} {
		f, err := Parse("weir.yaml", []byte(posts(url, "")))
		if assert.NoError(t, err, url) {
			assert.Equal(t, url, f.Tasks[0].HTTP.URL)
		}
	}
	const whole = `write it as in "http://127.0.0.1:9000/send"`
	for url, want := range map[string]string{
		"":                                 `url "": it is empty: ` + whole,
		"/send":                            `url "/send": it does not begin with "http://" or "https://": ` + whole,
		"localhost:9000/send":              `url "localhost:9000/send": it does not begin with "http://" or "https://": ` + whole,
		"//host/send":                      `url "//host/send": it does not begin with "http://" or "https://": ` + whole,
		"http:host":                        `url "http:host": it does not begin with "http://" or "https://": ` + whole,
		"ftp://host/":                      `url "ftp://host/": it does not begin with "http://" or "https://": ` + whole,
		"file:///etc/passwd":               `url "file:///etc/passwd": it does not begin with "http://" or "https://": ` + whole,
		"http://":                          `url "http:": it names no host: ` + whole,
		"http:///send":                     `url "http:///send": it names no host: ` + whole,
		"http://:80/":                      `url "http://:80/": it names no host: ` + whole,
		"http://h h/":                      `url "http://h h/": it cannot be read: ` + whole,
		"http://h:port/":                   `url "http://h:port/": it cannot be read: ` + whole,
		"http://h:0/":                      `url "http://h:0/": port "0": use 1 to 65535`,
		"http://h:65536/":                  `url "http://h:65536/": port "65536": use 1 to 65535`,
		"http://h/#top":                    `url "http://h/#top": what follows # is not sent: leave it out, or write # as %23`,
		"http://h/\n":                      `url "http://h/\n": it cannot be read: ` + whole,
		"https://ada:secret@h/a?t=secret":  `url "https://...@h/a?...": it holds credentials, which would be shown with it: give them in a header, as in headers: {Authorization: "Basic YWRhOnNlY3JldA=="}`,
		"https://secret@h/":                `url "https://...@h/": it holds credentials, which would be shown with it: `,
		"http://ada:secret@h:port/":        `url "...": it cannot be read: ` + whole,
		"http://h:port/?token=secret":      `url "...": it cannot be read: ` + whole,
		"ftp://ada:secret@h/?token=secret": `url "ftp://...@h/?...": it does not begin with`,
	} {
		lines := faults(t, posts(url, ""))
		if assert.Len(t, lines, 1, "%q", url) {
			assert.Contains(t, lines[0], `weir.yaml:3:17: W136 tasks.t.http.url: task "t": `+want, "%q", url)
			assert.NotContains(t, lines[0], "secret@", "%q", url)
			assert.NotContains(t, lines[0], "=secret", "%q", url)
		}
	}
}

func TestHeadersAreThoseThatARequestMayCarry(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(posts("http://h/", `X-Team: mail, x-n: 5, X-On: true, Authorization: "Bearer a b\tc", X-Name: "Zoë", Host: "mail.example:8080", Content-Type: text/plain, User-Agent: x, X-Empty: ""`)))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"X-Team": "mail", "x-n": "5", "X-On": "true", "Authorization": "Bearer a b\tc", "X-Name": "Zoë", "Host": "mail.example:8080",
		"Content-Type": "text/plain", "User-Agent": "x", "X-Empty": "",
	}, f.Tasks[0].HTTP.Headers)

	for header, want := range map[string]string{
		`"": x`:                        `W137 tasks.t.http.headers."": task "t": header "": not a name of a header: use letters, digits and -`,
		`"X Team": x`:                  `W137 tasks.t.http.headers."X Team": task "t": header "X Team": not a name of a header: use letters, digits and -`,
		`"X-Team:": x`:                 `header "X-Team:": not a name of a header: use letters, digits and -`,
		`X-Zoë: x`:                     `header "X-Zoë": not a name of a header: use letters, digits and -`,
		`Weir-Job-Id: x`:               `W137 tasks.t.http.headers.Weir-Job-Id: task "t": header "Weir-Job-Id": names that begin with Weir- are Weir's own: choose another, as in X-Team`,
		`weir-extra: x`:                `header "weir-extra": names that begin with Weir- are Weir's own`,
		`content-length: 5`:            `header "content-length": it belongs to the connection, which Weir looks after: leave it out`,
		`Transfer-Encoding: x`:         `header "Transfer-Encoding": it belongs to the connection`,
		`Connection: close`:            `header "Connection": it belongs to the connection`,
		`TE: trailers`:                 `header "TE": it belongs to the connection`,
		`X-Team: [secret]`:             `W112 tasks.t.http.headers.X-Team: it is a list: give the header's value, in quotes if it may be read as something else`,
		`X-Team: `:                     `W112 tasks.t.http.headers.X-Team: it is nothing: give the header's value`,
		`X-Team: "secret\nX-Evil: 1"`:  `W137 tasks.t.http.headers.X-Team: task "t": header "X-Team": its value has a control character: leave it out`,
		`X-Team: "secret\0"`:           `its value has a control character: leave it out`,
		`X-Team: secret, x-team: mail`: `W104 tasks.t.http.headers.x-team: task "t": headers "X-Team" and "x-team" are one: keep one of them`,
		`Host: "http://secret/"`:       `header "Host": its value is no host: write a name or an address, with a port if it needs one`,
		`Host: ""`:                     `header "Host": its value is no host`,
	} {
		lines := faults(t, posts("http://h/", header))
		if assert.Len(t, lines, 1, header) {
			assert.Contains(t, lines[0], "weir.yaml:3:")
			assert.Contains(t, lines[0], want, header)
			assert.NotContains(t, strings.ToLower(lines[0]), "secret", "a value may be one")
		}
	}
}

func TestAPostedTaskThatGivesNoTimeoutHasTheOneOfRequests(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(`
tasks:
  a: {http: {url: "http://h/"}}
  b: {http: {url: "http://h/"}, timeout: 5m}
  c: {http: {url: "http://h/"}, timeout: 0}
  d: {exec: {command: ["true"]}}
`))
	require.NoError(t, err)
	var got []time.Duration
	for _, task := range f.Tasks {
		got = append(got, task.Timeout)
		assert.True(t, task.Here())
	}
	assert.Equal(t, []time.Duration{30 * time.Second, 5 * time.Minute, 0, 0}, got)
}
