package scheduler

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// Why a handler's context was cancelled, as context.Cause tells it.
var (
	// ErrLeaseLost: the job's lease ran out, so that it may run elsewhere.
	ErrLeaseLost = errors.New("the job's lease was lost: it may run elsewhere by now")
	errStopped   = errors.New("the scheduler stops")
)

// ErrTimeout is the cause of a context that ended at the task's timeout.
var ErrTimeout = errors.New("timed out")

// hand gives a job a free slot.
func (s *Scheduler) hand(j *heldJob) {
	s.running++
	s.counters.running.Store(int64(s.running))
	s.work.Go(func() { s.occupy(j) })
}

// occupy runs a job, and whatever follows it in its slot: on one goroutine, whose
// stack has grown by then to what handlers need, unless a handler ends it.
func (s *Scheduler) occupy(j *heldJob) {
	defer func() {
		if j != nil && j.next != nil {
			s.work.Go(func() { s.occupy(j.next) })
		}
	}()
	for j != nil {
		j.run()
		j = j.next
	}
}

// hold takes jobs that were started at a time into this process's hands.
func (s *Scheduler) hold(jobs []store.Job, at time.Time) []*heldJob {
	s.counters.started.Add(int64(len(jobs)))
	until := at.Add(s.config.lease)
	if past(until, s.clock.Now()) { // suspended since the grant: they may run elsewhere
		for _, row := range jobs {
			s.results = append(s.results, givenBack(row))
		}
		return nil
	}
	held := make([]*heldJob, 0, len(jobs))
	for _, row := range jobs {
		if !row.MaxRetries.Valid { // what is unset is read from the task
			row.MaxRetries = sql.NullInt64{Int64: int64(s.tasks[row.Task].maxRetries), Valid: true}
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		j := &heldJob{row: row, cancel: cancel, since: at}
		j.leaseUntil.Store(until.UnixMicro())
		j.run = func() { s.handle(ctx, j) }
		if old, ok := s.latest[row.ID]; ok {
			s.loseLease(old)
			s.held.remove(old.key())
		}
		s.latest[row.ID] = j
		s.held.add(j)
		held = append(held, j)
	}
	return held
}

// handle runs one attempt and reports its end, whatever the handler and the
// error that it returns do: return, panic, or end the goroutine. Its slot goes to
// the next job, one that was claimed ahead, if there is one.
func (s *Scheduler) handle(ctx context.Context, j *heldJob) {
	err := errGoexit
	var r store.Result
	settled := false
	defer func() {
		if !settled { // a method of the error ended the goroutine
			r = s.settle(ctx, j.row, errGoexit)
		}
		j.reported.Store(true)
		j.cancel(context.Canceled)
		j.next = s.ahead.next()
		r.Kept = j.next != nil
		s.mail.report(r)
	}()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, panicked(string(debug.Stack())))
		}
		r = s.settle(ctx, j.row, err)
		settled = true
	}()
	if j.lost.Load() || j.lapsed(s.clock.Now()) {
		err = errNotHandedOver
		return
	}
	err = s.attempt(ctx, j.row)
}

// panicked cuts a stack, taken while a panic is under way, to begin with the
// frame that panicked: each frame is two lines.
func panicked(stack string) string {
	_, from, ok := strings.Cut(stack, "\npanic(")
	if !ok {
		return stack
	}
	lines := strings.SplitAfter(from, "\n")[2:]
	for len(lines) > 2 && strings.HasPrefix(lines[0], "runtime.") { // what turned a fault into a panic
		lines = lines[2:]
	}
	return strings.Join(lines, "")
}

// wrapped is the task's handler inside the middleware.
func (s *Scheduler) wrapped(t *task, row store.Job) Handler {
	h := Handler(func(ctx context.Context, _ *queue.Envelope) error { return t.run(ctx, row) })
	for _, wrap := range slices.Backward(s.config.middleware) {
		h = wrap(h)
	}
	return h
}

var (
	errGoexit        = errors.New("the handler ended its goroutine (runtime.Goexit)")
	errNotHandedOver = errors.New("not handed over")
)

// attempt calls the handler, under the timeout.
func (s *Scheduler) attempt(ctx context.Context, row store.Job) error {
	t := s.tasks[row.Task]
	timeout := t.timeout
	if row.Timeout.Valid {
		timeout = time.Duration(row.Timeout.Int64) * time.Microsecond
	}
	if timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrTimeout, timeout))
		defer cancel()
		ctx = limited
	}
	job := queue.NewEnvelope(row)
	err := s.wrapped(t, row)(ctx, &job)
	cause := context.Cause(ctx)
	switch {
	case !errors.Is(cause, ErrTimeout) || errors.Is(err, ErrTimeout):
		return err
	case err == nil || errors.Is(err, context.DeadlineExceeded):
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// settle is result, for any error: the methods of one may panic, as those of a
// nil pointer do.
func (s *Scheduler) settle(ctx context.Context, row store.Job, err error) (r store.Result) {
	defer func() {
		if p := recover(); p != nil {
			r = s.failed(row, errors.New(safeText(err)))
		}
	}()
	return s.result(ctx, row, err)
}

// result turns the end of an attempt into what is written.
func (s *Scheduler) result(ctx context.Context, row store.Job, err error) store.Result {
	r := resultOf(row)
	if err == nil {
		return r
	}
	if errors.Is(err, errNotHandedOver) {
		return givenBack(row)
	}
	if errors.Is(context.Cause(ctx), errStopped) {
		return s.interrupted(row, err)
	}
	return s.failed(row, err)
}

// failed is an attempt that ended with an error: the job is tried again, or it
// is a dead letter.
func (s *Scheduler) failed(row store.Job, err error) store.Result {
	r := resultOf(row)
	t := s.tasks[row.Task]
	text := errorText(err)
	r.Text = text
	r.Errors = store.AppendError(row.Errors.String, store.AttemptError{
		Attempt: row.Attempt, At: s.clock.Now().UnixMicro(), Error: text,
	})
	v := verbOf(err)
	r.Failed = !v.discard
	if v.discard || store.OutOfStarts(row.Attempt, row.GivenBack, int(row.MaxRetries.Int64)) {
		r.Outcome, r.Reason = store.Dead, text
		return r
	}
	r.Outcome = store.Retry
	if r.Delay = v.after.Microseconds(); !v.timed {
		chance := float64(s.config.random()>>11) / (1 << 53)
		r.Delay = t.backoff.Delay(row.Attempt-row.GivenBack, chance).Microseconds()
	}
	return r
}

func resultOf(row store.Job) store.Result {
	return store.Result{
		ID: row.ID, UID: row.UID, Claim: row.Claim.Int64,
		Line: store.Line{Task: row.Task, Queue: row.Queue}, StartedAt: row.StartedAt.Int64,
	}
}

// givenBack returns a job that was not handed to its handler.
func givenBack(row store.Job) store.Result {
	r := resultOf(row)
	r.Outcome = store.GiveBack
	return r
}

// interruptions is how often a job may be cut off by stops before that counts
// as a failure of its own.
const interruptions = 5

// interrupted gives a job back whose handler was cut off by a stop.
func (s *Scheduler) interrupted(row store.Job, err error) store.Result {
	if row.GivenBack >= interruptions {
		return s.failed(row, fmt.Errorf("cut off by a stop, as it was %d times before: %w", row.GivenBack, err))
	}
	r := resultOf(row)
	r.Outcome = store.Interrupted
	return r
}

// tellRefused says why a result came too late: the job was cancelled while it
// ran, or is in other hands.
func (s *Scheduler) tellRefused(r store.Result) {
	if r.Cancelled {
		s.counters.refused.Add(1)
		s.log.Info("job_cancelled", "job_id", r.UID, "task", r.Line.Task)
		s.publish(JobCancelled, r)
		return
	}
	s.refuse(r)
}

// maxErrorText is how much of an error is kept with a job, in bytes.
const maxErrorText = 4096

// errorText makes any error storable: valid UTF-8 without NUL, bounded.
func errorText(err error) string {
	text := safeText(err)
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	text = bounded(text, maxErrorText)
	if strings.TrimSpace(text) == "" {
		text = "an error without a text"
	}
	return text
}

// bounded cuts what is longer than so many bytes between two characters, and says
// so behind them.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + " ..."
}

// safeText survives an Error method that panics.
func safeText(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("an error whose text panics: %v", p)
		}
	}()
	return err.Error()
}

// refuse counts a result that comes too late: the job was started again.
func (s *Scheduler) refuse(r store.Result) {
	s.counters.refused.Add(1)
	s.log.Warn("late_result_refused", "job_id", r.UID, "task", r.Line.Task)
}

// tellDead logs that a job became a dead letter.
func (s *Scheduler) tellDead(r store.Result) {
	s.log.Warn("job_dead", "job_id", r.UID, "task", r.Line.Task, "reason", firstLine(r.Reason))
}

// firstLine is what is logged of an error: the rest, such as a stack, is kept
// with the job.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// count sums up written results, and logs what failed.
func (s *Scheduler) count(results, refused []store.Result) {
	late := make(map[store.Held]struct{}, len(refused))
	for _, r := range refused {
		late[store.Held{ID: r.ID, Claim: r.Claim}] = struct{}{}
		s.tellRefused(r)
	}
	for _, r := range results {
		if _, refused := late[store.Held{ID: r.ID, Claim: r.Claim}]; refused {
			continue
		}
		switch r.Outcome {
		case store.Done:
			s.counters.completed.Add(1)
			s.publish(JobCompleted, r)
		case store.Retry:
			s.counters.retried.Add(1)
			s.publish(JobFailed, r)
			s.log.Info("attempt_failed", "job_id", r.UID, "task", r.Line.Task, "error", firstLine(r.Text))
			if r.Delay > 0 {
				s.soon(s.clock.Now().Add(time.Duration(r.Delay) * time.Microsecond))
			} else {
				s.arrive([]store.Line{r.Line})
			}
		case store.Dead:
			s.counters.failed.Add(1)
			s.publish(JobDead, r)
			s.tellDead(r)
		default:
			s.arrive([]store.Line{r.Line})
		}
	}
}
