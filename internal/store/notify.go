package store

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// notices tell the schedulers of other processes, by NOTIFY on PostgreSQL, what
// this one's commits made ready. They are sent after the commit, by one sender,
// and some dozens a second at most: the server lets transactions that notify
// commit one after the other.
type notices struct {
	from string // tells this store's own from those of others

	mu      sync.Mutex
	news    News
	pending bool
	sending bool
	wg      sync.WaitGroup // close waits for the sender
	closing chan struct{}
	once    sync.Once
}

const (
	// noticeEvery is the shortest time between two notices.
	noticeEvery = 20 * time.Millisecond
	// noticePatience is how long one may take to send. Who polls finds what it
	// would have said.
	noticePatience = 5 * time.Second
	// largestNotice is how many bytes a notice may have; the server takes 7,999.
	// Instead of a larger one goes word that there is something to look for.
	largestNotice = 7900
)

// notice is a Wake as it is sent.
type notice struct {
	From  string      `json:"from,omitempty"`
	Lines [][2]string `json:"lines,omitempty"` // task, queue
	Due   int64       `json:"due,omitempty"`
	Look  bool        `json:"look,omitempty"`
	Gone  bool        `json:"cancelled,omitempty"`
	Test  int         `json:"test,omitempty"` // of the channel, by its number
}

func (n notice) text() string {
	doc, _ := json.Marshal(n) //nolint:errchkjson // texts and numbers always encode
	if len(doc) > largestNotice {
		return notice{From: n.From, Look: true, Gone: n.Gone}.text()
	}
	return string(doc)
}

func noticeOf(from string, w Wake) notice {
	n := notice{From: from, Due: w.Due, Look: w.Look, Gone: w.Cancelled}
	for _, l := range w.Lines {
		n.Lines = append(n.Lines, [2]string{l.Task, l.Queue})
	}
	return n
}

func (n notice) wake() Wake {
	w := Wake{Due: n.Due, Look: n.Look, Cancelled: n.Gone}
	for _, l := range n.Lines {
		w.Lines = append(w.Lines, Line{Task: l[0], Queue: l[1]})
	}
	return w
}

// readNotice reads what came over the channel: anybody can send there.
func readNotice(text string) notice {
	var n notice
	if json.Unmarshal([]byte(text), &n) != nil {
		return notice{Look: true}
	}
	return n
}

// There is a channel for each schema. Its name must fit into 63 bytes.
const channelSQL = `'weir_' || md5(coalesce(nullif($1, ''), current_schema(), ''))`

var (
	notifySQL      = &statement{postgres: `select pg_notify(` + channelSQL + `, $2)`}
	channelNameSQL = &statement{postgres: `select ` + channelSQL}
)

func (s *Store) notify(ctx context.Context, h Handle, n notice) error {
	_, err := s.exec(ctx, h, notifySQL, s.target.schema, n.text())
	return err
}

// send sends a notice soon.
func (n *notices) send(ctx context.Context, s *Store, w Wake) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.news.Add(w)
	n.pending = true
	if !n.sending {
		n.sending = true
		n.wg.Go(func() { n.run(ctx, s) })
	}
}

// run sends until nothing is pending.
func (n *notices) run(ctx context.Context, s *Store) {
	for {
		n.mu.Lock()
		if !n.pending {
			n.sending = false
			n.mu.Unlock()
			return
		}
		w := n.news.Take()
		n.pending = false
		n.mu.Unlock()

		sending, cancel := context.WithTimeout(ctx, noticePatience)
		_ = s.notify(sending, s.read, noticeOf(n.from, w))
		cancel()
		fired, stop := clock.System{}.Timer(noticeEvery)
		select {
		case <-fired:
		case <-n.closing:
		}
		stop()
	}
}

// close sends what is pending.
func (n *notices) close() {
	n.once.Do(func() { close(n.closing) })
	n.wg.Wait()
}
