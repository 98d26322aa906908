package store

import (
	"context"
	"fmt"
	"time"
)

// Override is an operator's rate for a limit, which beats every declaration.
type Override struct {
	Rate   string // as bucket.Rate.String writes it
	Burst  int64  // 0: none
	For    int64  // microseconds; 0: until it is unset
	Reason string
}

// What an operator says of a limit ends its hold in the same statement, so
// that the next look decides anew.
var (
	setOverrideSQL = &statement{
		postgres: `
update weir_limits set override_rate = $2, override_burst = nullif($3::bigint, 0), override_reason = nullif($5, ''),
       override_until = case when $4::bigint > 0 then coalesce($6::bigint, ` + pgNow + `) + $4::bigint end, held_from = 0, held_until = 0
where name = $1 and key = ''`,
		sqlite: `
update weir_limits set override_rate = $2, override_burst = nullif($3, 0), override_reason = nullif($5, ''),
       override_until = case when $4 > 0 then $6 + $4 end, held_from = 0, held_until = 0
where name = $1 and key = ''`,
	}
	unsetOverrideSQL = &statement{postgres: `
update weir_limits set override_rate = null, override_burst = null, override_until = null, override_reason = null, held_from = 0, held_until = 0
where name = $1 and key = ''`}
	pauseLimitSQL = &statement{
		postgres: `update weir_limits set paused = $2, held_from = 0, held_until = 0 where name = $1 and key = ''`,
	}
	pauseQueueSQL = &statement{
		postgres: `insert into weir_queues (name, paused) values ($1, true) on conflict (name) do update set paused = true`,
	}
	resumeQueueSQL = &statement{postgres: `delete from weir_queues where name = $1`}
)

// SetOverride gives a limit another rate and tells whether there is such a
// limit.
func (s *Store) SetOverride(ctx context.Context, limit string, o Override) (bool, error) {
	detail := o.Rate
	if o.Burst > 0 {
		detail += fmt.Sprintf(" burst %d", o.Burst)
	}
	if o.For > 0 {
		detail += fmt.Sprintf(" for %v", time.Duration(o.For)*time.Microsecond)
	}
	if o.Reason != "" {
		detail += ": " + o.Reason
	}
	return s.control(ctx, Act{Action: "limits set", Subject: limit, Detail: detail}, setOverrideSQL, limit, o.Rate, o.Burst, o.For, o.Reason, s.given())
}

// UnsetOverride gives a limit its declared rate back.
func (s *Store) UnsetOverride(ctx context.Context, limit string) (bool, error) {
	return s.control(ctx, Act{Action: "limits unset", Subject: limit}, unsetOverrideSQL, limit)
}

// PauseLimit stops (or lets go on) what a limit covers.
func (s *Store) PauseLimit(ctx context.Context, limit string, paused bool) (bool, error) {
	return s.control(ctx, Act{Action: "limits " + pausing(paused), Subject: limit}, pauseLimitSQL, limit, paused)
}

// PauseQueue stops (or lets go on) a queue, whether or not anything waits in it.
func (s *Store) PauseQueue(ctx context.Context, queue string, paused bool) error {
	act := Act{Action: "queues " + pausing(paused), Subject: queue}
	st := resumeQueueSQL
	if paused {
		st = pauseQueueSQL
	}
	_, err := s.control(ctx, act, st, queue)
	return err
}

func pausing(paused bool) string {
	if paused {
		return "pause"
	}
	return "resume"
}

func (s *Store) control(ctx context.Context, act Act, st *statement, args ...any) (bool, error) {
	var n int64
	err := s.write(ctx, func(t *tx) (err error) {
		if n, err = s.exec(ctx, t, st, args...); err != nil {
			return err
		}
		return s.record(ctx, t, &act, n)
	})
	if err != nil {
		return false, fmt.Errorf("%s %s: %w", act.Action, act.Subject, err)
	}
	s.Wake(ctx, Wake{Look: true})
	return n > 0, nil
}

var runNowSQL = &statement{
	postgres: `
with c as materialized (select coalesce($2::bigint, ` + pgNow + `) as now)
update weir_jobs set state = 0, run_at = c.now, first_due = c.now from c where uid = $1 and state = 2 returning task, queue`,
	sqlite: `update weir_jobs set state = 0, run_at = $2, first_due = $2 where uid = $1 and state = 2 returning task, queue`,
}

// RunNow brings a scheduled job into line at once and tells whether it was
// scheduled.
func (s *Store) RunNow(ctx context.Context, uid string) (bool, error) {
	var lines []Line
	err := s.write(ctx, func(t *tx) (err error) {
		if lines, err = selectRows[Line](ctx, t, s.text(runNowSQL), uid, s.given()); err != nil {
			return err
		}
		return s.record(ctx, t, byOperator(ctx, Act{Action: "jobs retry", Subject: uid}), int64(len(lines)))
	})
	if err != nil {
		return false, fmt.Errorf("run job %s now: %w", uid, err)
	}
	s.Wake(ctx, Wake{Lines: lines})
	return len(lines) > 0, nil
}
