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
	return wholeEntry(&row), nil
}

func wholeEntry(row *store.DeadLetter) *Entry {
	e := newEntry(row)
	e.RawArgs = append([]byte{}, row.Args...)
	return &e
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
		return 0, "", &InvalidError{"dead letter", quote(id), "use the number of an entry or the id of its job"}
	}
	return number, "", nil
}

// named finds the entries that ids name, each once, in their order, and the ids
// that named them. What names nothing is a fault.
func (l *Letters) named(ctx context.Context, ids []string) (letters []store.DeadLetter, names []string, faults []error) {
	var numbers []int64
	var uids []string
	for _, id := range ids {
		number, uid, err := parseID(id)
		switch {
		case err != nil:
			faults = append(faults, err)
		case uid != "":
			uids = append(uids, uid)
		default:
			numbers = append(numbers, number)
		}
	}
	if len(numbers)+len(uids) == 0 {
		return nil, nil, faults
	}
	rows, err := l.store.FindDead(ctx, numbers, uids)
	if err != nil {
		return nil, nil, append(faults, err)
	}
	byNumber, byJob := map[int64]int{}, map[string]int{}
	for i := range rows {
		byNumber[rows[i].ID], byJob[rows[i].JobID] = i, i
	}
	taken := make([]bool, len(rows))
	for _, id := range ids {
		number, uid, err := parseID(id)
		if err != nil {
			continue // told above
		}
		i, there := byNumber[number]
		if uid != "" {
			i, there = byJob[uid]
		}
		switch {
		case !there:
			faults = append(faults, missing(id))
		case !taken[i]:
			taken[i] = true
			letters, names = append(letters, rows[i]), append(names, id)
		}
	}
	return letters, names, faults
}
