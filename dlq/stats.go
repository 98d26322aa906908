package dlq

import (
	"context"
	"time"

	"github.com/weirq/weir/internal/wire"
)

// A Group is dead letters with the same kind, task and class of reason.
type Group struct {
	Kind Kind   `json:"kind"`
	Task string `json:"task"`
	// Reason is the first line of the reason, 80 bytes of it; of what expired,
	// without the time. As Filter.Reason it selects the group's entries.
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// An Hour is how many dead letters of a kind died within an hour and are still
// there.
type Hour struct {
	Kind  Kind      `json:"kind"`
	Hour  time.Time `json:"hour"` // its beginning
	Count int64     `json:"count"`
}

// MarshalJSON writes the hour with stable names.
func (h Hour) MarshalJSON() ([]byte, error) { return wire.Object(h) }

// Removed is how many dead letters of a kind retention has removed since the
// beginning.
type Removed struct {
	Kind    Kind  `json:"kind"`
	ByAge   int64 `json:"by_age"`
	ByCount int64 `json:"by_count"`
}

// Stats are the dead letters in numbers.
type Stats struct {
	Groups []Group `json:"groups"`
	// GroupsCapped: there are more groups than the largest 1,000.
	GroupsCapped bool      `json:"groups_capped,omitzero"`
	Hours        []Hour    `json:"hours"` // the last 24, this one included; those with none are left out
	Removed      []Removed `json:"removed"`
}

// How much Stats tells apart.
const (
	GroupsShown = 1000
	HoursShown  = 24
)

// Stats counts the dead letters by kind, task and the class of their reason,
// and those of the last day by hour. The counts are kept with the dead letters
// and read as they are: it takes no longer where there are millions, unless
// hundreds of thousands of these have reasons of their own.
func (l *Letters) Stats(ctx context.Context) (Stats, error) {
	stats := Stats{Groups: []Group{}, Hours: []Hour{}, Removed: []Removed{}}
	groups, err := l.store.DeadStats(ctx, GroupsShown+1)
	if err != nil {
		return stats, err
	}
	for _, g := range groups[:min(len(groups), GroupsShown)] {
		stats.Groups = append(stats.Groups, Group{Kind(g.Kind), g.Task, g.Reason, g.Count})
	}
	stats.GroupsCapped = len(groups) > GroupsShown
	hours, err := l.store.DeadHours(ctx, HoursShown)
	if err != nil {
		return stats, err
	}
	for _, h := range hours {
		stats.Hours = append(stats.Hours, Hour{Kind(h.Kind), time.Unix(h.Hour*3600, 0).UTC(), h.Count})
	}
	removed, err := l.store.RemovedDead(ctx)
	if err != nil {
		return stats, err
	}
	for _, r := range removed {
		stats.Removed = append(stats.Removed, Removed{Kind(r.Kind), r.ByAge, r.ByCount})
	}
	return stats, nil
}

// Recount counts all dead letters anew. It is needed only after somebody
// changed the table weir_dead by hand, reads all of it, and keeps what makes
// dead letters waiting meanwhile.
func (l *Letters) Recount(ctx context.Context) error { return l.store.RecountDead(ctx) }
