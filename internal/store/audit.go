package store

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Act is something that an operator does, as it is recorded: in the transaction
// that does it.
type Act struct {
	UID     string // one that goes on in several transactions is one act; "": a new one
	Action  string // as the command is called
	Subject string // what it was done to
	Detail  string // how; may be empty
}

type actorKey struct{}

// WithActor says who acts under a context: up to 4 KiB of it are recorded.
func WithActor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, actorKey{}, name)
}

// actor is who acts; "" where nobody said.
func actor(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}

// byOperator is the act where the context names who acts: a program that
// cancels jobs of its own is no operator.
func byOperator(ctx context.Context, act Act) *Act {
	if actor(ctx) == "" {
		return nil
	}
	return &act
}

var recordSQL = &statement{
	postgres: `
insert into weir_audit (uid, at, actor, action, subject, detail, count)
values ($1, coalesce($2::bigint, ` + pgNow + `), $3, $4, $5, $6, $7)
on conflict (uid) do update set count = weir_audit.count + excluded.count`,
	sqlite: `
insert into weir_audit (uid, at, actor, action, subject, detail, count) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (uid) do update set count = count + excluded.count`,
}

// record notes what was done to how many. What changed nothing is not noted.
func (s *Store) record(ctx context.Context, t *tx, act *Act, count int64) error {
	if act == nil || count == 0 {
		return nil
	}
	uid := act.UID
	if uid == "" {
		uid = uuid.Must(uuid.NewV7()).String()
	}
	_, err := s.exec(ctx, t, recordSQL, uid, s.given(), recorded(actor(ctx)), act.Action, recorded(act.Subject), recorded(act.Detail), count)
	if err != nil {
		return fmt.Errorf("record %s: %w", act.Action, err)
	}
	return nil
}

// recorded is a text as it is recorded: what anybody calls themselves or acts on
// must neither fail what they do, nor fill the table.
func recorded(text string) string {
	const most = 4096
	return beginning(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"), most)
}

// beginning is the beginning of a text: up to so many bytes, in whole characters.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Record notes an act that is no transaction of the store's.
func (s *Store) Record(ctx context.Context, act Act) error {
	return s.write(ctx, func(t *tx) error { return s.record(ctx, t, &act, 1) })
}

var actCountSQL = &statement{postgres: `select coalesce(sum(count), 0) from weir_audit where uid = $1`}

// ActCount is to how many an act was done so far.
func (s *Store) ActCount(ctx context.Context, uid string) (n int64, err error) {
	if err := s.read.GetContext(ctx, &n, s.text(actCountSQL), uid); err != nil {
		return 0, fmt.Errorf("look up what was done: %w", err)
	}
	return n, nil
}

// Recorded is a recorded act.
type Recorded struct {
	ID      int64  `db:"id"`
	At      int64  `db:"at"`
	Actor   string `db:"actor"`
	Action  string `db:"action"`
	Subject string `db:"subject"`
	Detail  string `db:"detail"`
	Count   int64  `db:"count"`
}

// ActFilter selects recorded acts; zero values select all.
type ActFilter struct {
	Actor, Action string
	Before        int64 // a cursor: ids before this one; 0: from the newest
	Limit         int
}

var actsSQL = &statement{postgres: `
select id, at, actor, action, subject, detail, count from weir_audit
where ($1 = 0 or id < $1) and ($2 = '' or actor = $2) and ($3 = '' or action = $3)
order by id desc limit $4`}

// Acts lists what operators did, the latest first.
func (s *Store) Acts(ctx context.Context, f ActFilter) ([]Recorded, error) {
	rows, err := selectRows[Recorded](ctx, s.read, s.text(actsSQL), f.Before, recorded(f.Actor), recorded(f.Action), f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list what operators did: %w", err)
	}
	return rows, nil
}
