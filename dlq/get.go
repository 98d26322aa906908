package dlq

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// Get returns a dead letter with its arguments, by its own id or by that of the
// job that died. It returns [ErrNotFound] where there is none.
func (l *Letters) Get(ctx context.Context, id string) (*Entry, error) {
	row, err := l.row(ctx, id)
	if err != nil {
		return nil, err
	}
	e := newEntry(&row)
	e.RawArgs = append([]byte{}, row.Args...)
	return &e, nil
}

func (l *Letters) row(ctx context.Context, id string) (store.DeadLetter, error) {
	number, uid, err := parseID(id)
	if err != nil {
		return store.DeadLetter{}, err
	}
	var row store.DeadLetter
	var found bool
	if uid != "" {
		row, found, err = l.store.GetDeadByJob(ctx, uid)
	} else {
		row, found, err = l.store.GetDead(ctx, number)
	}
	if err == nil && !found {
		err = missing(id)
	}
	return row, err
}

func missing(id string) error {
	return fmt.Errorf("dead letter %s: %w: it never was, or it was replayed or purged", id, ErrNotFound)
}

// parseID reads the id of an entry or, as uid, that of a job.
func parseID(id string) (number int64, uid string, err error) {
	if uid, err := wire.UUID(id); err == nil {
		return 0, uid, nil
	}
	number, err = strconv.ParseInt(id, 10, 64)
	if err != nil || number < 1 || strconv.FormatInt(number, 10) != id {
		return 0, "", fmt.Errorf("%w: dead letter %.80q: use the number of an entry or the id of its job", ErrInvalid, id)
	}
	return number, "", nil
}

// A Group is dead letters with the same kind, task and head of the reason.
type Group struct {
	Kind   Kind   `json:"kind"`
	Task   string `json:"task"`
	Reason string `json:"reason"` // its first line, 80 bytes of it
	Count  int64  `json:"count"`
}

// Stats are the dead letters in groups.
type Stats struct {
	Groups []Group `json:"groups"`
}

// Stats counts the dead letters by kind, task and the head of their reason. It
// reads all of them.
func (l *Letters) Stats(ctx context.Context) (Stats, error) {
	rows, err := l.store.DeadStats(ctx)
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{Groups: make([]Group, len(rows))}
	for i, r := range rows {
		stats.Groups[i] = Group{Kind: Kind(r.Kind), Task: r.Task, Reason: r.Reason, Count: r.Count}
	}
	return stats, nil
}
