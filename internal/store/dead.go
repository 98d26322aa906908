package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// DeadLetter is a dead letter as stored.
type DeadLetter struct {
	ID          int64          `db:"id"`
	JobID       string         `db:"job_id"`
	Kind        string         `db:"kind"`
	Task        string         `db:"task"`
	Queue       string         `db:"queue"`
	Reason      string         `db:"reason"`
	Metadata    sql.NullString `db:"metadata"`
	JobMetadata sql.NullString `db:"job_metadata"`
	Args        []byte         `db:"args"`
	ArgsSize    int64          `db:"args_size"`
	Rank        int            `db:"rank"`
	Attempt     int            `db:"attempt"`
	Errors      sql.NullString `db:"errors"`
	UniqueKey   sql.NullString `db:"unique_key"`
	MaxRetries  sql.NullInt64  `db:"max_retries"`
	Timeout     sql.NullInt64  `db:"timeout"`
	Deferrals   int64          `db:"deferrals"`
	EnqueuedAt  int64          `db:"enqueued_at"`
	FirstDue    int64          `db:"first_due"`
	DeadAt      int64          `db:"dead_at"`
	Replays     int            `db:"replays"`
}

// DeadFilter selects dead letters; zero values select all.
type DeadFilter struct {
	IDs         []int64 // entries of ReplayDead and PurgeDead; nothing else counts then
	Kind        string
	NotKind     string // all kinds but this one
	Task, Queue string
	Before      int64 // a cursor: ids before this one; 0: from the newest
	After       int64 // a cursor of ReplayDead: ids after this one
	Limit       int
}

const deadView = `id, job_id, kind, task, queue, reason, metadata, job_metadata, %s as args, length(args) as args_size, rank, attempt,
       errors, unique_key, max_retries, timeout, deferrals, enqueued_at, first_due, dead_at, replays`

// byKind is a statement for all dead letters, and for those of one kind: they
// are found by their index, whatever number of others there is.
type byKind struct{ all, one *statement }

func (s byKind) of(f *DeadFilter) *statement {
	if f.Kind == "" {
		return s.all
	}
	return s.one
}

func forKinds(statementFor func(where string) *statement) byKind {
	const where = ` from weir_dead where id < $1 and %s and ($3 = '' or task = $3) and ($4 = '' or queue = $4) and ($5 = '' or kind <> $5)`
	return byKind{all: statementFor(fmt.Sprintf(where, `$2 = ''`)), one: statementFor(fmt.Sprintf(where, `kind = $2`))}
}

var listDeadSQL = forKinds(func(where string) *statement {
	short := fmt.Sprintf(`case when length(args) <= %d then args end`, listedArgs)
	return &statement{postgres: `select ` + fmt.Sprintf(deadView, short) + where + ` order by id desc limit $6`}
})

// ListDead returns dead letters, the newest first, without arguments that are
// longer than 4 KiB.
func (s *Store) ListDead(ctx context.Context, f DeadFilter) ([]DeadLetter, error) {
	rows, err := selectRows[DeadLetter](ctx, s.read, s.text(listDeadSQL.of(&f)), f.before(), f.Kind, f.Task, f.Queue, f.NotKind, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return rows, nil
}

var (
	getDeadSQL      = &statement{postgres: `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where id = $1`}
	getDeadByJobSQL = &statement{postgres: `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where job_id = $1`}
)

// GetDead returns the dead letter of that entry id, if there is one.
func (s *Store) GetDead(ctx context.Context, id int64) (DeadLetter, bool, error) {
	return s.oneDead(ctx, getDeadSQL, id)
}

// GetDeadByJob returns the dead letter of a job, if there is one.
func (s *Store) GetDeadByJob(ctx context.Context, uid string) (DeadLetter, bool, error) {
	return s.oneDead(ctx, getDeadByJobSQL, uid)
}

func (s *Store) oneDead(ctx context.Context, st *statement, key any) (DeadLetter, bool, error) {
	rows, err := selectRows[DeadLetter](ctx, s.read, s.text(st), key)
	if err != nil {
		return DeadLetter{}, false, fmt.Errorf("get dead letter %v: %w", key, err)
	}
	if len(rows) == 0 {
		return DeadLetter{}, false, nil
	}
	return rows[0], true, nil
}

// DeadCount is a group of dead letters.
type DeadCount struct {
	Kind   string `db:"kind"`
	Task   string `db:"task"`
	Reason string `db:"reason"`
	Count  int64  `db:"count"`
}

// A group has the first line of the reason for its name, of that at most so
// many bytes. The characters that fit are among the first so many.
const deadHead = 80

var deadStatsSQL = &statement{
	postgres: `
select kind, task, left(split_part(reason, E'\n', 1), $1) as reason, count(*) as count
from weir_dead group by 1, 2, 3`,
	sqlite: `
select kind, task, substr(case when instr(reason, char(10)) > 0 then substr(reason, 1, instr(reason, char(10)) - 1) else reason end, 1, $1) as reason,
       count(*) as count
from weir_dead group by 1, 2, 3`,
}

// DeadStats counts dead letters by kind, task and the head of their reason.
func (s *Store) DeadStats(ctx context.Context) ([]DeadCount, error) {
	rows, err := selectRows[DeadCount](ctx, s.read, s.text(deadStatsSQL), deadHead)
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts := make(map[DeadCount]int64, len(rows))
	for _, r := range rows {
		counts[DeadCount{Kind: r.Kind, Task: r.Task, Reason: head(r.Reason, deadHead)}] += r.Count
	}
	out := make([]DeadCount, 0, len(counts))
	for group, n := range counts {
		group.Count = n
		out = append(out, group)
	}
	slices.SortFunc(out, func(a, b DeadCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Task, b.Task), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return out, nil
}

// head is the beginning of a text: whole characters, at most so many bytes.
func head(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// Entries named by their ids are found by them, whatever else is there.
var (
	takeDeadSQL = forKinds(func(where string) *statement {
		take := `select ` + fmt.Sprintf(deadView, `args`) + where + ` and id > $6 order by id limit $7`
		return &statement{postgres: take + ` for update`, sqlite: take}
	})
	takeDeadByIDSQL = &statement{
		postgres: `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where id = any($1::bigint[]) order by id for update`,
		sqlite:   `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where id in (select value from json_each($1)) order by id`,
	}
	dropDeadSQL = &statement{
		postgres: `delete from weir_dead where id = any($1::bigint[])`,
		sqlite:   `delete from weir_dead where id in (select value from json_each($1))`,
	}
)

// Replayed says what became of one entry of a replay.
type Replayed struct {
	ID    int64  // the entry
	JobID string // the job that died
	NewID string // the job that was made of it, or that holds its unique key
	// Skipped: a live job holds the unique key; the entry stays.
	Skipped bool
}

// ReplayDead replays one batch of what f selects, from the oldest, in one
// transaction: each entry goes and a new job comes, as revive makes it.
func (s *Store) ReplayDead(ctx context.Context, f DeadFilter, revive func(DeadLetter) NewJob) ([]Replayed, error) {
	var out []Replayed
	var wake Wake
	err := s.write(ctx, func(t *tx) error {
		out, wake = nil, Wake{}
		entries, err := s.takeDead(ctx, t, f)
		if err != nil || len(entries) == 0 {
			return err
		}
		jobs := make([]NewJob, len(entries))
		for i, d := range entries {
			jobs[i] = revive(d)
		}
		inserted, w, err := s.insert(ctx, t, jobs)
		if err != nil {
			return err
		}
		wake = w
		gone := make([]int64, 0, len(entries))
		for i, d := range entries {
			out = append(out, Replayed{ID: d.ID, JobID: d.JobID, NewID: inserted[i].UID, Skipped: inserted[i].Duplicate})
			if !inserted[i].Duplicate {
				gone = append(gone, d.ID)
			}
		}
		_, err = s.exec(ctx, t, dropDeadSQL, s.ids(gone))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("replay dead letters: %w", err)
	}
	s.Wake(ctx, wake)
	return out, nil
}

func (s *Store) takeDead(ctx context.Context, t *tx, f DeadFilter) ([]DeadLetter, error) {
	if len(f.IDs) > 0 {
		return selectRows[DeadLetter](ctx, t, s.text(takeDeadByIDSQL), s.ids(f.IDs))
	}
	return selectRows[DeadLetter](ctx, t, s.text(takeDeadSQL.of(&f)), f.before(), f.Kind, f.Task, f.Queue, f.NotKind, f.After, f.Limit)
}

func (f *DeadFilter) before() int64 {
	if f.Before == 0 {
		return math.MaxInt64
	}
	return f.Before
}

var purgeDeadSQL = forKinds(func(where string) *statement {
	chosen := `select id` + where + ` order by id desc limit $6`
	return &statement{
		postgres: `delete from weir_dead where id = any(array(` + chosen + `))`,
		sqlite:   `delete from weir_dead where id in (` + chosen + `)`,
	}
})

// PurgeDead deletes one batch of what f selects and returns how many went.
func (s *Store) PurgeDead(ctx context.Context, f DeadFilter) (int64, error) {
	var n int64
	err := s.write(ctx, func(t *tx) (err error) {
		if len(f.IDs) > 0 {
			n, err = s.exec(ctx, t, dropDeadSQL, s.ids(f.IDs))
			return err
		}
		n, err = s.exec(ctx, t, purgeDeadSQL.of(&f), f.before(), f.Kind, f.Task, f.Queue, f.NotKind, f.Limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge dead letters: %w", err)
	}
	return n, nil
}
