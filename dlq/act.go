package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// WithActor says who acts under a context: it is recorded with what they do,
// together with the time and the number of entries. Without it nobody's name
// is.
func WithActor(ctx context.Context, name string) context.Context { return store.WithActor(ctx, name) }

// An ActOption says how a replay or a purge by filter is done.
type ActOption func(*acting) error

type acting struct {
	dry      bool
	rate     bucket.Rate // zero: no pace
	progress func(done int64)
}

// DryRun does everything but to change and to record anything, and does not wait
// for its pace. Of entries that share a unique key it counts each, although a
// replay makes a job of the first alone.
func DryRun() ActOption {
	return func(a *acting) error {
		a.dry = true
		return nil
	}
}

// Pace spreads what is done evenly at a rate, as in "20/s" or "1000/h", so that
// it does not drown live work. The call takes as long as that takes.
func Pace(rate string) ActOption {
	return func(a *acting) (err error) {
		a.rate, err = bucket.Parse(rate)
		return err
	}
}

// Progress calls do after each transaction with the number of entries that were
// dealt with so far.
func Progress(do func(done int64)) ActOption {
	return func(a *acting) error {
		a.progress = do
		return nil
	}
}

// errStopped ends a walk before its end.
var errStopped = errors.New("stopped")

// tries is how often a transaction whose reply was lost is repeated by itself.
const tries = 3

// where walks through what a filter selects and what is there now, from the
// oldest, at the pace that is asked for.
func (l *Letters) where(ctx context.Context, f *Filter, opts []ActOption, do func(how *acting, batch []store.DeadLetter) error) error {
	var how acting
	for _, opt := range opts {
		if err := opt(&how); err != nil {
			return err
		}
	}
	if how.dry {
		how.rate = bucket.Rate{} // there is no live work to spare
	}
	filter, err := l.stored(ctx, f)
	switch {
	case err != nil:
		return err
	case f.Limit != 0 || f.Cursor != "":
		return &InvalidError{"limit", strconv.Itoa(f.Limit), "limit and cursor are for lists"}
	case f.Kind == "" && f.Task == "":
		return fmt.Errorf("%w: name a kind (shed, failed, expired) or a task", ErrFilterRequired)
	}
	if filter.Through, err = l.store.LastDead(ctx); err != nil || filter.Through == (store.DeadKey{}) {
		return err
	}
	filter.OldestFirst = true
	pace := newPacer(how.rate, l.store.Clock())
	done := int64(0)
	return l.walkStored(ctx, filter, func(batch []store.DeadLetter) error {
		for len(batch) > 0 {
			n, err := pace.wait(ctx, len(batch))
			if err == nil {
				err = do(&how, batch[:n])
			}
			if err != nil {
				return err
			}
			batch = batch[n:]
			if done += int64(n); how.progress != nil {
				how.progress(done)
			}
		}
		return nil
	})
}

// newAct is an act as it is recorded: one, however many transactions it takes.
func newAct(action, subject string, rate bucket.Rate) *store.Act {
	act := &store.Act{UID: uuid.Must(uuid.NewV7()).String(), Action: action, Subject: subject}
	if !rate.IsZero() {
		act.Detail = "rate " + rate.String()
	}
	return act
}

// someIDs names what an act was done to.
func someIDs(ids []string) string {
	const named = 20
	if len(ids) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:named], " "), len(ids)-named)
	}
	return strings.Join(ids, " ")
}
