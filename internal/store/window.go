package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirq/weir/bucket"
)

// Window is a limit's row under the fixed-window strategy, as it was read: its
// window, and an operator's word on it.
type Window struct {
	Name      string        `db:"name"`
	ID        int64         `db:"window_id"`
	From      int64         `db:"window_from"`
	Count     int64         `db:"window_count"`
	Paused    bool          `db:"paused"`
	Rate      nullText      `db:"override_rate"`
	OverUntil sql.NullInt64 `db:"override_until"`
	// Now is the clock, read in the same statement: the only time that From is
	// ever compared with.
	Now int64 `db:"now"`
	// Busy: the row is locked by another session and was not read.
	Busy bool `db:"-"`
}

// State is the row's window as a value.
func (w *Window) State() bucket.Window {
	return bucket.Window{ID: w.ID, From: w.From, Count: w.Count}
}

// InForce is the quota that counts: what was declared, with an operator's count
// until that ends. An error says that there is one which cannot be read; what was
// declared holds then.
func (w *Window) InForce(declared bucket.Quota) (quota bucket.Quota, overridden bool, err error) {
	if !w.Rate.Valid || w.OverUntil.Valid && w.OverUntil.Int64 <= w.Now {
		return declared, false, nil
	}
	if quota, err = declared.Overridden(w.Rate.String); err != nil {
		return declared, false, err
	}
	return quota, true, nil
}

// SetState writes a window into the row.
func (w *Window) SetState(v bucket.Window) { w.ID, w.From, w.Count = v.ID, v.From, v.Count }

// WindowID names a generation of a limit's window.
type WindowID struct {
	Name string `json:"name"`
	ID   int64  `json:"id"`
}

const windowColumns = `name, window_id, window_from, window_count, paused, override_rate, override_until`

var windowsSQL = &statement{
	postgres: `
select ` + windowColumns + `, coalesce($2::bigint, ` + pgNow + `) as now from weir_limits
where key = '' and name = any(array(select value from json_array_elements_text($1::json)))`,
	sqlite: `
select ` + windowColumns + `, $2 as now from weir_limits
where key = '' and name in (select value from json_each($1))`,
}

// Windows reads the windows of limits, in one statement and without a lock. A
// limit whose row is gone is not among them.
func (s *Store) Windows(ctx context.Context, names []string) ([]Window, error) {
	db := s.read
	if s.engine != nil {
		db = s.engine
	}
	rows, err := selectRows[Window](ctx, db, s.text(windowsSQL), document(names), s.given())
	if err != nil {
		return nil, fmt.Errorf("read the windows of %d limits: %w", len(names), err)
	}
	return rows, nil
}

// The rows are pinned by the generations that were read, so of any number of
// processes one opens the next window of a limit: for the others it matches no row.
var rollWindowsSQL = lockingStatements(func(lock string) *statement {
	return &statement{
		postgres: generationsPostgres(lock) + `
update weir_limits set window_id = window_id + 1, window_from = coalesce($2::bigint, ` + pgNow + `), window_count = 0
from l where weir_limits.key = '' and weir_limits.name = l.name returning weir_limits.name, window_from`,
		sqlite: `
update weir_limits set window_id = window_id + 1, window_from = $2, window_count = 0
from json_each($1) r
where weir_limits.key = '' and name = r.value ->> 'name' and window_id = r.value ->> 'id' returning name, window_from`,
	}
})

// generationsPostgres locks the rows that are still the generations given, by name,
// so that processes that change the same ones cannot block each other.
func generationsPostgres(lock string) string {
	return `
with l as materialized (
    select w.name from weir_limits w, json_to_recordset($1::json) as r(name text, id bigint)
    where w.key = '' and w.name = r.name and w.window_id = r.id
    order by w.name ` + strings.Replace(lock, "update", "update of w", 1) + `
)`
}

// RollWindows opens the windows after these generations, now, and returns those that
// this call opened. With skip it leaves rows alone that another session has locked,
// on PostgreSQL.
func (s *Store) RollWindows(ctx context.Context, windows []WindowID, skip bool) (rolled []RolledWindow, err error) {
	err = s.writeFor(ctx, turning, func(t *tx) error {
		rolled, err = selectJSON[RolledWindow](ctx, s, t, rollWindowsSQL.of(skip), windows, s.given())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the next windows of %d limits: %w", len(windows), err)
	}
	return rolled, nil
}

// RolledWindow is a window that was opened.
type RolledWindow struct {
	Name string `db:"name"`
	From int64  `db:"window_from"`
}

// By the time a start is counted it has happened, so nothing is asked here: a
// statement that could refuse would waste the attempt. It only has to be the
// generation that was read.
var countWindowsSQL = lockingStatements(func(lock string) *statement {
	return &statement{
		postgres: generationsPostgres(lock) + `
update weir_limits set window_count = greatest(window_count, 0) + $2, started = started + $2
from l where weir_limits.key = '' and weir_limits.name = l.name returning weir_limits.name`,
		sqlite: `
update weir_limits set window_count = max(window_count, 0) + $2, started = started + $2
from json_each($1) r
where weir_limits.key = '' and name = r.value ->> 'name' and window_id = r.value ->> 'id' returning name`,
	}
})

var counting = purpose{begin: beginPostgresTurn + `; set local lock_timeout = '1s'`, engine: true}

// CountWindows adds a start to windows, in one statement, and returns the names of
// those that were still the generation given. Rows that another session keeps locked
// are waited for, a second in all, and then passed over. Not at once: processes that
// count have them locked all the time. PostgreSQL.
func (s *Store) CountWindows(ctx context.Context, windows []WindowID) (landed []string, err error) {
	count := func(why purpose, st *statement) error {
		return s.writeFor(ctx, why, func(t *tx) error {
			landed, err = s.countWindows(ctx, t, st, windows, 1)
			return err
		})
	}
	if err = count(counting, countWindowsSQL.wait); errors.Is(err, ErrLocked) {
		err = count(turning, countWindowsSQL.skip)
	}
	if err != nil {
		return nil, fmt.Errorf("count a start under %d limits: %w", len(windows), err)
	}
	return landed, nil
}

// ProbeWindow tells whether a start can be counted in a window. It counts one and
// takes it back, as one transaction: to write nothing new would land also where a
// trigger or a constraint refuses what a count writes. It does not wait for a row that
// somebody has locked.
func (s *Store) ProbeWindow(ctx context.Context, w WindowID) (landed bool, err error) {
	err = s.writeFor(ctx, turning, func(t *tx) error {
		for _, starts := range []int64{1, -1} {
			names, err := s.countWindows(ctx, t, countWindowsSQL.skip, []WindowID{w}, starts)
			if err != nil {
				return err
			}
			if landed = len(names) == 1; !landed && starts < 0 {
				return errors.New("what was counted cannot be taken back")
			}
			if !landed {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("try a count under limit %q: %w", w.Name, err)
	}
	return landed, nil
}

func (s *Store) countWindows(ctx context.Context, t *tx, st *statement, windows []WindowID, starts int64) ([]string, error) {
	rows, err := selectJSON[struct {
		Name string `db:"name"`
	}](ctx, s, t, st, windows, starts)
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names, err
}

// The clock is read after the locks, as for buckets.
var lockWindowsSQL = lockingStatements(func(lock string) *statement {
	return &statement{
		postgres: `
with l as materialized (
    select ` + windowColumns + ` from weir_limits
    where key = '' and name = any(array(select value from json_array_elements_text($1::json)))
    order by name ` + lock + `
)
select l.*, coalesce($2::bigint, ` + pgNow + `) as now from l`,
		sqlite: windowsSQL.sqlite,
	}
})

// lockWindows locks the windows of exact limits in the order of their names, and
// then reads the clock. When locked ones are skipped, what is not there counts as
// Busy.
func (s *Store) lockWindows(ctx context.Context, t *tx, names []string, now int64, skip bool) ([]Window, int64, error) {
	if len(names) == 0 {
		return nil, now, nil
	}
	rows, err := selectRows[Window](ctx, t, s.text(lockWindowsSQL.of(skip)), document(names), s.given())
	if err == nil && len(rows) != len(names) && !skip {
		err = fmt.Errorf("%d of %d rows are there", len(rows), len(names))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("lock exact limits: %w", err)
	}
	all := make([]Window, len(names))
	for i, name := range names {
		all[i] = Window{Name: name, Busy: true}
	}
	for _, r := range rows {
		i, _ := slices.BinarySearch(names, r.Name)
		all[i] = r
		now = max(now, r.Now)
	}
	return all, now, nil
}

var saveWindowsSQL = &statement{
	postgres: `
update weir_limits l set window_id = r.id, window_from = r."from", window_count = r.count, started = l.started + r.started
from json_to_recordset($1::json) as r(name text, id bigint, "from" bigint, count bigint, started bigint)
where l.name = r.name and l.key = ''`,
	sqlite: `
update weir_limits set window_id = r.value ->> 'id', window_from = r.value ->> 'from', window_count = r.value ->> 'count',
       started = started + (r.value ->> 'started')
from json_each($1) r
where weir_limits.name = r.value ->> 'name' and weir_limits.key = ''`,
}

// SavedWindow is a locked window that a turn changed, and how many starts it
// counted in it.
type SavedWindow struct {
	Name    string `json:"name"`
	ID      int64  `json:"id"`
	From    int64  `json:"from"`
	Count   int64  `json:"count"`
	Started int64  `json:"started"`
}

// saveWindows writes locked windows back. A start that was not counted would be
// one too many, so every row is accounted for.
func (s *Store) saveWindows(ctx context.Context, t *tx, windows []SavedWindow) error {
	if len(windows) == 0 {
		return nil
	}
	n, err := s.execJSON(ctx, t, saveWindowsSQL, windows)
	if err == nil && n != int64(len(windows)) {
		err = fmt.Errorf("%d of %d rows were there", n, len(windows))
	}
	if err != nil {
		return fmt.Errorf("count in exact limits: %w", err)
	}
	return nil
}
