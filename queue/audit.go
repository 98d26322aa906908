package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// WithActor says who acts under a context: it is recorded with what they do to
// limits, queues, schedules, dead letters and jobs. See [Client.Audit].
func WithActor(ctx context.Context, name string) context.Context { return store.WithActor(ctx, name) }

// An Act is something that an operator did.
type Act struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor" wire:"null"` // empty: nobody said (see WithActor)
	Action  string    `json:"action"`            // as the command is called: "dlq replay", "limits set"
	Subject string    `json:"subject"`           // what it was done to: names, ids, or a filter
	Detail  string    `json:"detail" wire:"null"`
	Count   int64     `json:"count"` // to how many
}

// MarshalJSON writes the act with stable names.
func (a Act) MarshalJSON() ([]byte, error) { return wire.Object(a) }

// AuditFilter selects acts. Zero values select all.
type AuditFilter struct {
	Actor  string
	Action string
	Limit  int    // 1 to 10,000. Default: 100
	Cursor string // Next of the page before
}

const auditList = 'a'

// Audit lists what operators did to limits, queues, schedules, dead letters and jobs, the
// latest first. Each act was recorded in the transaction that did it, with the
// number of what it changed; what changed nothing is not there. A replay or a
// purge in many transactions is one act. The cancellation of a job and its
// being brought into line are recorded where [WithActor] says who did it.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (Page[Act], error) {
	limit := f.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < 1 || limit > LargestLimit {
		return Page[Act]{}, &InvalidError{Field: "limit", Value: strconv.Itoa(f.Limit), Problem: fmt.Sprintf("use 1 to %d", LargestLimit)}
	}
	before, err := wire.ParseCursor(auditList, f.Cursor)
	if err != nil {
		return Page[Act]{}, &InvalidError{Field: "cursor", Value: quote(f.Cursor), Problem: err.Error()}
	}
	rows, err := c.store.Acts(ctx, store.ActFilter{Actor: f.Actor, Action: f.Action, Before: before, Limit: limit + 1})
	if err != nil {
		return Page[Act]{}, err
	}
	var page Page[Act]
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = wire.Cursor(auditList, rows[limit-1].ID)
	}
	page.Items = make([]Act, len(rows))
	for i, r := range rows {
		page.Items[i] = Act{
			ID: strconv.FormatInt(r.ID, 10), At: wire.Time(r.At), Actor: r.Actor, Action: r.Action,
			Subject: r.Subject, Detail: r.Detail, Count: r.Count,
		}
	}
	return page, nil
}
