package config

import (
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// http reads where a task's jobs are posted.
func (s *section) http(whose string) *HTTP {
	const want = `a URL, as in {url: "http://127.0.0.1:9000/send"}`
	n, ok := s.value("http", want)
	if !ok {
		return nil
	}
	path := join(s.path, "http")
	if n.kind != mapping {
		s.wrongType("http", n, want)
		return nil
	}
	in := s.section(path, n)
	in.misplaced = map[string]string{
		"uri":     `here it is called "url"`,
		"header":  `here it is called "headers"`,
		"method":  "jobs are posted: leave it out",
		"body":    "the body is the job's arguments: leave it out",
		"timeout": `write it beside "http"`,
	}
	out := &HTTP{Place: s.place(n.position, path)}
	if text, n, ok := in.text("url", `an http or https URL, as in "http://127.0.0.1:9000/send"`); ok {
		out.URL = text
		if problem, mend := urlProblem(text); problem != "" {
			in.fault(BadURL, n.position, join(path, "url"), whose+": url "+quote(withoutSecrets(text))+": "+problem, mend)
		}
	}
	if !in.has("url") {
		in.missing(MissingKey, n.position, whose+`: no "url"`, "give "+want)
	}
	out.Headers = in.headers(whose)
	in.end()
	return out
}

// urlProblem says why a job cannot be posted to a URL.
func urlProblem(text string) (problem, mend string) {
	const whole = `write it as in "http://127.0.0.1:9000/send"`
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "it is empty", whole
	case err != nil:
		return "it cannot be read", whole
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return `it does not begin with "http://" or "https://"`, whole
	case u.User != nil:
		return "it holds credentials, which would be shown with it", `give them in a header, as in headers: {Authorization: "Basic YWRhOnNlY3JldA=="}`
	case u.Hostname() == "":
		return "it names no host", whole
	case u.Port() != "" && !isPort(u.Port()):
		return "port " + quote(u.Port()), "use 1 to 65535"
	case strings.Contains(text, "#"):
		return "what follows # is not sent", "leave it out, or write # as %23"
	}
	return "", ""
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// withoutSecrets makes a URL fit for a message or a screen: credentials and
// parameters are left out.
func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.Opaque == "":
		if u.User != nil {
			u.User = url.User("...")
		}
		if u.RawQuery != "" {
			u.RawQuery = "..."
		}
		return u.String()
	case strings.ContainsAny(text, "@?"):
		return "..."
	}
	return text
}

// connectionHeaders belong to the connection, whose headers are not the
// operator's to write.
var connectionHeaders = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// headers reads what goes with each request. No message repeats a value: it
// may be a secret.
func (s *section) headers(whose string) map[string]string {
	const want = `names and values, as in {X-Team: mail}`
	n, ok := s.value("headers", want)
	if !ok {
		return nil
	}
	if n.kind != mapping {
		s.wrongType("headers", n, want)
		return nil
	}
	out, seen := map[string]string{}, map[string]string{}
	for _, e := range n.entries {
		at := join(join(s.path, "headers"), e.key)
		canonical := textproto.CanonicalMIMEHeaderKey(e.key)
		bad := func(at position, key, problem, mend string) {
			s.fault(BadHeader, at, key, whose+": header "+quote(e.key)+": "+problem, mend)
		}
		switch problem, mend := headerProblem(e.key); {
		case problem != "":
			bad(e.at, at, problem, mend)
			continue
		case seen[canonical] != "":
			s.fault(DuplicateKey, e.at, at, fmt.Sprintf("%s: headers %q and %q are one", whose, seen[canonical], e.key), "keep one of them")
			continue
		}
		seen[canonical] = e.key
		switch k := e.of.kind; {
		case k != text && k != number && k != boolean:
			s.wrongTypeAt(at, e.of, "the header's value, in quotes if it may be read as something else")
		case strings.IndexFunc(e.of.value, unsendable) >= 0:
			bad(e.of.position, at, "its value has a control character", "leave it out")
		case canonical == "Host" && !isHost(e.of.value):
			bad(e.of.position, at, "its value is no host", "write a name or an address, with a port if it needs one")
		default:
			out[e.key] = e.of.value
		}
	}
	return out
}

// headerProblem says why a name is none of a header that a file may give.
func headerProblem(name string) (problem, mend string) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "" || strings.IndexFunc(name, notInToken) >= 0:
		return "not a name of a header", "use letters, digits and -"
	case strings.HasPrefix(canonical, "Weir-"):
		return "names that begin with Weir- are Weir's own", "choose another, as in X-Team"
	case slices.Contains(connectionHeaders, canonical):
		return "it belongs to the connection, which Weir looks after", "leave it out"
	}
	return "", ""
}

// notInToken tells what RFC 9110 does not let stand in a header's name.
func notInToken(c rune) bool {
	letterOrDigit := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	return !letterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// unsendable tells what cannot stand in a header's value.
func unsendable(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

func isHost(s string) bool {
	u, err := url.Parse("http://" + s)
	return err == nil && u.Host == s && u.Hostname() != ""
}
