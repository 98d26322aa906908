package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// DeadKey is a place in the order of death: by time, then by arrival. The zero
// value is none.
type DeadKey struct {
	At int64 `db:"dead_at"` // microseconds
	ID int64 `db:"id"`
}

func (k DeadKey) compare(other DeadKey) int {
	return cmp.Or(cmp.Compare(k.At, other.At), cmp.Compare(k.ID, other.ID))
}

func (k DeadKey) isZero() bool { return k == DeadKey{} }

// DeadFilter selects dead letters; zero values select all.
type DeadFilter struct {
	Kind        string
	NotKind     string // all kinds but this one
	Task, Queue string
	Reason      string // its beginning
	Text        string // somewhere in the reason, the arguments (up to 4 KiB), the job's metadata or the unique key

	From    int64   // died at this time or later; 0: any
	Until   int64   // died before this time; 0: any
	Through DeadKey // up to this place, included; zero: any

	OldestFirst bool
	After       DeadKey // a cursor: what comes behind this place
	Limit       int
}

func (f *DeadFilter) kinds() []string {
	kinds := []string{KindExpired, KindFailed, KindShed}
	return slices.DeleteFunc(kinds, func(k string) bool { return f.Kind != "" && k != f.Kind || k == f.NotKind })
}

// bounds are the places from the first, included, to the last, not included.
func (f *DeadFilter) bounds() (low, high DeadKey) {
	low, high = DeadKey{math.MinInt64, 0}, DeadKey{math.MaxInt64, math.MaxInt64}
	atLeast := func(k DeadKey) {
		if k.compare(low) > 0 {
			low = k
		}
	}
	below := func(k DeadKey) {
		if k.compare(high) < 0 {
			high = k
		}
	}
	if f.From != 0 {
		atLeast(DeadKey{f.From, 0})
	}
	if f.Until != 0 {
		below(DeadKey{f.Until, 0})
	}
	if !f.Through.isZero() {
		below(DeadKey{f.Through.At, f.Through.ID + 1})
	}
	switch {
	case f.After.isZero():
	case f.OldestFirst:
		atLeast(DeadKey{f.After.At, f.After.ID + 1})
	default:
		below(f.After)
	}
	return low, high
}

// sifting tells whether the filter asks for what no index knows, so that rows
// are read in vain.
func (f *DeadFilter) sifting() bool {
	return f.Reason != "" || f.Text != "" || f.Task != "" && f.Queue != ""
}

// deadReach is how many rows of a kind one question looks at. Where a filter
// sifts out more, the answer says up to where it looked, and the next question
// goes on there: no page is slow, however rare what it looks for.
const deadReach = CountBound

// A question is about one kind within a task, within a queue, or as a whole:
// each has an index that gives the rows in order.
type deadQuestion struct{ whole, task, queue [2]*statement } // newest first, oldest first

func (q *deadQuestion) of(f *DeadFilter) *statement {
	direction := 0
	if f.OldestFirst {
		direction = 1
	}
	switch {
	case f.Task != "":
		return q.task[direction]
	case f.Queue != "":
		return q.queue[direction]
	}
	return q.whole[direction]
}

// The parameters are the same in all: kind, bounds, task, queue, reason, text,
// and a number of rows. What is sifted is written so that no index is thought
// of for it. SQLite, which knows nothing of the rows, is told the index.
const (
	deadRange = ` where kind = $1 and (dead_at, id) >= ($2, $3) and (dead_at, id) < ($4, $5)`
	siftQueue = ` and ($7 = '' or queue || '' = $7)`
	pgSift    = ` and ($8 = '' or starts_with(reason, $8))
  and ($9 = '' or strpos(reason, $9) > 0 or strpos(coalesce(job_metadata, ''), $9) > 0 or strpos(coalesce(unique_key, ''), $9) > 0
       or length(args) <= 4096 and position(convert_to($9, 'UTF8') in args) > 0)`
	sqliteSift = ` and ($8 = '' or substr(reason, 1, length($8)) = $8)
  and ($9 = '' or instr(reason, $9) > 0 or instr(coalesce(job_metadata, ''), $9) > 0 or instr(coalesce(unique_key, ''), $9) > 0
       or length(args) <= 4096 and instr(args, cast($9 as blob)) > 0)`
)

func askDead(build func(where, order string) string) *deadQuestion {
	statements := func(index, within string) (both [2]*statement) {
		for i, order := range []string{` order by dead_at desc, id desc`, ` order by dead_at, id`} {
			both[i] = &statement{
				postgres: build(` from weir_dead`+deadRange+within+pgSift, order),
				sqlite:   build(` from weir_dead indexed by `+index+deadRange+within+sqliteSift, order),
			}
		}
		return both
	}
	return &deadQuestion{
		whole: statements(`weir_dead_kind`, ` and $6 = '' and $7 = ''`),
		task:  statements(`weir_dead_task`, ` and task = $6`+siftQueue),
		queue: statements(`weir_dead_queue`, ` and queue = $7 and $6 = ''`),
	}
}

var (
	listDeadSQL = askDead(func(where, order string) string {
		short := fmt.Sprintf(`case when length(args) <= %d then args end`, listedArgs)
		return `select ` + fmt.Sprintf(deadView, short) + where + order + ` limit $10`
	})
	nameDeadSQL  = askDead(func(where, order string) string { return `select ` + deadName + where + order + ` limit $10` })
	placeDeadSQL = askDead(func(where, order string) string { return `select dead_at, id` + where + order + ` limit 1 offset $10` })
	countDeadSQL = askDead(func(where, order string) string {
		return `select count(*) as count from (select 1` + where + order + ` limit $10) found`
	})
)

// ListDead returns a page of dead letters, without arguments that are longer
// than 4 KiB, and the cursor behind it: zero at the end. A page may have fewer
// than the limit, or none, although more follow.
func (s *Store) ListDead(ctx context.Context, f DeadFilter) ([]DeadLetter, DeadKey, error) {
	return s.pageDead(ctx, listDeadSQL, &f)
}

// NameDead is ListDead for who needs ids, kinds, times and sizes alone.
func (s *Store) NameDead(ctx context.Context, f DeadFilter) ([]DeadLetter, DeadKey, error) {
	return s.pageDead(ctx, nameDeadSQL, &f)
}

func (s *Store) pageDead(ctx context.Context, q *deadQuestion, f *DeadFilter) (page []DeadLetter, next DeadKey, err error) {
	order := func(a, b DeadKey) int { return b.compare(a) }
	if f.OldestFirst {
		order = DeadKey.compare
	}
	err = s.guarded(ctx, func(h Handle) error {
		page, next = nil, DeadKey{}
		for _, kind := range f.kinds() {
			low, high, reached, err := s.reachDead(ctx, h, f, kind)
			if err != nil {
				return err
			}
			rows, err := selectRows[DeadLetter](ctx, h, s.text(q.of(f)), f.args(kind, low, high, f.Limit+1)...)
			if err != nil {
				return err
			}
			page = append(page, rows...)
			if len(rows) <= f.Limit && !reached.isZero() && (next.isZero() || order(reached, next) < 0) {
				next = reached
			}
		}
		return nil
	})
	if err != nil {
		return nil, DeadKey{}, fmt.Errorf("list dead letters: %w", err)
	}
	slices.SortFunc(page, func(a, b DeadLetter) int { return order(a.Key(), b.Key()) })
	if !next.isZero() { // of other kinds more was seen: it comes again
		page = slices.DeleteFunc(page, func(d DeadLetter) bool { return order(d.Key(), next) > 0 })
	}
	if len(page) > f.Limit {
		page = page[:f.Limit]
		next = page[f.Limit-1].Key()
	}
	return page, next, nil
}

// reachDead bounds a question about one kind to what it may look at. Reached is
// the cursor behind that; zero where the bounds hold it all.
func (s *Store) reachDead(ctx context.Context, h Handle, f *DeadFilter, kind string) (low, high, reached DeadKey, err error) {
	low, high = f.bounds()
	if !f.sifting() {
		return low, high, DeadKey{}, nil
	}
	// The same question without what is sifted tells where it would end.
	all := DeadFilter{Task: f.Task, OldestFirst: f.OldestFirst}
	if all.Task == "" {
		all.Queue = f.Queue
	}
	rows, err := selectRows[DeadKey](ctx, h, s.text(placeDeadSQL.of(&all)), all.args(kind, low, high, deadReach)...)
	if err != nil || len(rows) == 0 {
		return low, high, DeadKey{}, err
	}
	end := rows[0]
	if f.OldestFirst {
		return low, end, DeadKey{end.At, end.ID - 1}, nil
	}
	return DeadKey{end.At, end.ID + 1}, high, DeadKey{end.At, end.ID + 1}, nil
}

func (f *DeadFilter) args(kind string, low, high DeadKey, rows int) []any {
	return []any{kind, low.At, low.ID, high.At, high.ID, f.Task, f.Queue, f.Reason, f.Text, rows}
}

// CountDead counts what a filter selects. Where the counts that are kept cannot
// tell, it walks: exactly up to CountBound, or as far as it looks where the
// filter sifts. Capped says that there may be more.
func (s *Store) CountDead(ctx context.Context, f DeadFilter) (n int64, capped bool, err error) {
	if f.kept() {
		n, err = s.sumDead(ctx, &f)
		return n, false, err
	}
	err = s.guarded(ctx, func(h Handle) error {
		n, capped = 0, false
		for _, kind := range f.kinds() {
			low, high, reached, err := s.reachDead(ctx, h, &f, kind)
			if err != nil {
				return err
			}
			rows, err := selectRows[struct {
				Count int64 `db:"count"`
			}](ctx, h, s.text(countDeadSQL.of(&f)), f.args(kind, low, high, CountBound+1)...)
			if err != nil {
				return err
			}
			n += rows[0].Count
			capped = capped || !reached.isZero()
		}
		return nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("count dead letters: %w", err)
	}
	if n > CountBound {
		n, capped = CountBound, true
	}
	return n, capped, nil
}

// kept tells whether the counts that are kept know what the filter selects.
// They know the beginning of a reason.
func (f *DeadFilter) kept() bool {
	const known = 77 // bytes of any reason's first line; 80 may cut a character
	short := len(f.Reason) <= known && !strings.Contains(f.Reason, "\n") &&
		(len(f.Reason) <= len(expiredReason) || !strings.HasPrefix(f.Reason, expiredReason))
	low, high := (&DeadFilter{}).bounds()
	from, until := f.bounds()
	return short && f.Queue == "" && f.Text == "" && from == low && until == high
}

var sumDeadSQL = func() *statement {
	sum := func(beginning string) string {
		return `
select cast(coalesce(sum(count), 0) as bigint) as count from weir_dead_counts
where ($1 = '' or kind = $1) and ($2 = '' or kind <> $2) and ($3 = '' or task = $3) and ($4 = '' or ` + beginning + `)`
	}
	return &statement{postgres: sum(`starts_with(reason, $4)`), sqlite: sum(`substr(reason, 1, length($4)) = $4`)}
}()

func (s *Store) sumDead(ctx context.Context, f *DeadFilter) (int64, error) {
	var n int64
	if err := s.read.GetContext(ctx, &n, s.text(sumDeadSQL), f.Kind, f.NotKind, f.Task, f.Reason); err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}

// LastDead is the latest place in the order of death; zero where there are no
// dead letters.
func (s *Store) LastDead(ctx context.Context) (DeadKey, error) {
	rows, _, err := s.NameDead(ctx, DeadFilter{Limit: 1})
	if err != nil || len(rows) == 0 {
		return DeadKey{}, err
	}
	return rows[0].Key(), nil
}
