package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// An HTTP target posts each job to a URL. The job's arguments are the body;
// Weir-Job-Id, Weir-Task, Weir-Queue and Weir-Attempt are among the headers. A
// status of 2xx completes the job, any other fails the attempt. Redirects are
// not followed: the job went where it was sent, or nowhere.
type HTTP struct {
	URL string
	// Headers go with each request; Host names the host that is asked for,
	// where that is not the URL's.
	Headers map[string]string
	// Client sends the requests. Default: one that all targets share, and that
	// keeps connections.
	Client *http.Client
}

// DefaultHTTPTimeout bounds a request of a task that has no timeout.
const DefaultHTTPTimeout = 30 * time.Second

// What is read of an answer, and for how long: of a good one so that the
// connection can be used again, of a bad one for the error. Its status counts
// whether or not the rest ever comes.
const (
	drainBytes = 64 << 10
	errorBytes = 2 << 10
	bodyWait   = 500 * time.Millisecond
)

var sharedClient = &http.Client{
	Transport: func() http.RoundTripper {
		t, _ := http.DefaultTransport.(*http.Transport)
		own := t.Clone()
		own.MaxIdleConnsPerHost = 100
		own.ResponseHeaderTimeout = 0 // the job's own timeout counts
		own.MaxResponseHeaderBytes = 64 << 10
		return own
	}(),
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// A StatusError is an answer that is not 2xx.
type StatusError struct {
	Status string // "503 Service Unavailable"
	Body   string // how it begins
	// RetryAfter is what a 429 or a 503 asked for; Timed tells whether it did.
	RetryAfter time.Duration
	Timed      bool
}

// Error begins with a line that is alike for alike failures.
func (e *StatusError) Error() string {
	if e.Body == "" {
		return "answer " + e.Status
	}
	return "answer " + e.Status + "\n" + e.Body
}

// Run posts the job and waits for the answer. An error names the URL, without
// what may be secret in it.
func (h HTTP) Run(ctx context.Context, call Call) error {
	if err := h.post(ctx, call); err != nil {
		return fmt.Errorf("POST %s: %w", h.place(), err)
	}
	return nil
}

// place is the URL without its user and its parameters.
func (h HTTP) place() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return "(its URL is none)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

func (h HTTP) post(ctx context.Context, call Call) error {
	whole, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := h.request(whole, call)
	if err != nil {
		return fmt.Errorf("make the request: %w", withoutURL(err))
	}
	client := h.Client
	if client == nil {
		client = sharedClient
	}
	resp, err := client.Do(req)
	if err != nil {
		err = withoutURL(err)
		if cause := context.Cause(ctx); cause != nil {
			return errors.Join(cause, err)
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	defer time.AfterFunc(bodyWait, cancel).Stop()
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes))
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	e := &StatusError{Status: resp.Status, Body: strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD"))}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		e.RetryAfter, e.Timed = retryAfter(resp)
	}
	return e
}

func (h HTTP) request(ctx context.Context, call Call) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(call.Args))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "weir")
	req.Header.Set("Content-Type", "application/octet-stream")
	if json.Valid(call.Args) {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range h.Headers {
		req.Header.Set(name, value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host // net/http asks nowhere else
	}
	// Names come from producers: what a header cannot carry is escaped.
	req.Header.Set("Weir-Job-Id", call.JobID)
	req.Header.Set("Weir-Task", headerText(call.Task))
	req.Header.Set("Weir-Queue", headerText(call.Queue))
	req.Header.Set("Weir-Attempt", strconv.Itoa(call.Attempt))
	return req, nil
}

// withoutURL leaves out of an error what its reader need not see, the URL with
// its parameters, and what would tell alike failures apart, the port that a
// connection happened to come from.
func withoutURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if op, ok := err.(*net.OpError); ok && op.Source != nil { //nolint:errorlint // what it wraps would be lost
		alike := *op
		alike.Source = nil
		return &alike
	}
	return err
}

// retryAfter reads the header: seconds, or a date, from which the answer's own
// date is taken away so that two clocks need not agree.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	text := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	const longest = 366 * 24 * time.Hour
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		if seconds < 0 {
			return 0, false
		}
		return time.Duration(min(seconds, int64(longest/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	sent, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(sent), 0), longest), true
}

// headerText keeps printable ASCII and escapes the rest as Go does.
func headerText(s string) string {
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}
