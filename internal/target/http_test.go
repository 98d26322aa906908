package target_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/target"
)

func serve(t *testing.T, handle http.HandlerFunc) target.HTTP {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(client.CloseIdleConnections)
	return target.HTTP{URL: server.URL, Client: client, Headers: map[string]string{"X-Team": "mail"}}
}

func TestAJobIsPostedWithItsArgumentsAndItsNames(t *testing.T) {
	var got *http.Request
	var body []byte
	h := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	})
	require.NoError(t, h.Run(t.Context(), target.Call{JobID: "id", Task: "send ü", Queue: "q", Attempt: 2, Args: []byte(`{"to":"ada"}`)}))
	require.Equal(t, http.MethodPost, got.Method)
	require.JSONEq(t, `{"to":"ada"}`, string(body))
	for name, want := range map[string]string{
		"X-Team": "mail", "Content-Type": "application/json", "Weir-Job-Id": "id",
		"Weir-Task": `send \u00fc`, "Weir-Queue": "q", "Weir-Attempt": "2",
	} {
		require.Equal(t, want, got.Header.Get(name), name)
	}
}

func TestArgumentsThatAreNoJSONArePostedAsBytes(t *testing.T) {
	var kind string
	h := serve(t, func(_ http.ResponseWriter, r *http.Request) { kind = r.Header.Get("Content-Type") })
	require.NoError(t, h.Run(t.Context(), target.Call{Args: []byte{0, 255}}))
	require.Equal(t, "application/octet-stream", kind)
}

func TestAnAnswerThatIsNotGoodFailsTheAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		header  map[string]string
		want    string
		after   time.Duration
		isTimed bool
	}{
		"an error with a text":             {status: 500, want: "answer 500 Internal Server Error\nno luck"},
		"a redirect is not followed":       {status: 302, header: map[string]string{"Location": "/there"}, want: "answer 302 Found\nno luck"},
		"too many, seconds":                {status: 429, header: map[string]string{"Retry-After": "7"}, want: "answer 429", after: 7 * time.Second, isTimed: true},
		"unavailable, a date":              {status: 503, header: map[string]string{"Date": "Thu, 01 Jan 2026 00:00:00 GMT", "Retry-After": "Thu, 01 Jan 2026 00:01:00 GMT"}, want: "answer 503", after: time.Minute, isTimed: true},
		"a date that has passed":           {status: 503, header: map[string]string{"Date": "Thu, 01 Jan 2026 00:00:00 GMT", "Retry-After": "Thu, 01 Jan 2025 00:00:00 GMT"}, want: "answer 503", isTimed: true},
		"centuries are cut":                {status: 429, header: map[string]string{"Retry-After": "99999999999"}, want: "answer 429", after: 366 * 24 * time.Hour, isTimed: true},
		"nonsense is no time":              {status: 429, header: map[string]string{"Retry-After": "soon"}, want: "answer 429"},
		"a negative number is no time":     {status: 429, header: map[string]string{"Retry-After": "-1"}, want: "answer 429"},
		"only 429 and 503 are asked about": {status: 500, header: map[string]string{"Retry-After": "7"}, want: "answer 500"},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "no luck")
			})
			err := h.Run(t.Context(), target.Call{})
			var status *target.StatusError
			require.ErrorAs(t, err, &status)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.after, status.RetryAfter)
			require.Equal(t, c.isTimed, status.Timed)
		})
	}
}

func TestAHugeAnswerIsNotRead(t *testing.T) {
	h := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		chunk := strings.Repeat("x", 1<<20)
		for range 64 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	err := h.Run(t.Context(), target.Call{})
	require.ErrorContains(t, err, "answer 502")
	require.Less(t, len(err.Error()), 4096)
}

func TestASlowAnswerEndsWithTheContext(t *testing.T) {
	h := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	reason := errors.New("timed out")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, reason)
	defer cancel()
	require.ErrorIs(t, h.Run(ctx, target.Call{}), reason)
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	connections := map[string]struct{}{}
	h := serve(t, func(_ http.ResponseWriter, r *http.Request) { connections[r.RemoteAddr] = struct{}{} })
	for range 20 {
		require.NoError(t, h.Run(t.Context(), target.Call{Args: []byte("x")}))
	}
	require.Len(t, connections, 1)
}

func TestAnAnswerCountsWhetherOrNotItsBodyEverEnds(t *testing.T) {
	for status, want := range map[int]string{http.StatusOK: "", http.StatusServiceUnavailable: "answer 503 Service Unavailable\nno luck"} {
		h := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no luck")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := h.Run(ctx, target.Call{})
		require.NoError(t, ctx.Err(), "it does not wait for the timeout")
		cancel()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, "POST "+h.URL+": "+want)
		var answer *target.StatusError
		require.ErrorAs(t, err, &answer)
		require.Equal(t, 7*time.Second, answer.RetryAfter)
	}
}

func TestTheHostThatIsAskedForCanBeAnotherThanTheURLs(t *testing.T) {
	var host string
	h := serve(t, func(_ http.ResponseWriter, r *http.Request) { host = r.Host })
	h.Headers = map[string]string{"host": "mail.example:8080"}
	require.NoError(t, h.Run(t.Context(), target.Call{}))
	require.Equal(t, "mail.example:8080", host)
}

func TestAnErrorOfTheConnectionShowsNoParameterAndIsAlikeForAlikeFailures(t *testing.T) {
	h := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // resets the connection
			}
			_ = conn.Close()
		}
	})
	h.URL += "/send?token=secret"
	seen := map[string]struct{}{}
	for range 5 {
		err := h.Run(t.Context(), target.Call{Args: []byte("x")})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
		seen[err.Error()] = struct{}{}
	}
	require.LessOrEqual(t, len(seen), 2, "a reset, or an early end: %v", seen)

	for _, url := range []string{"http://127.0.0.1:1/?token=secret", "http://h h/?token=secret"} {
		err := target.HTTP{URL: url}.Run(t.Context(), target.Call{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestAFailureNamesTheURLWithoutItsSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"http://me:secret@127.0.0.1:1/a%2Fb/c?key=secret#part": "POST http://127.0.0.1:1/a%2Fb/c: dial tcp 127.0.0.1:1: ",
		"http://\x00secret": "POST (its URL is none): make the request: ",
	} {
		err := target.HTTP{URL: url}.Run(t.Context(), target.Call{})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}
