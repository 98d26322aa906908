package store

import (
	"context"
	"fmt"
)

// One sweep ends at most so many jobs that were not started in time.
const expireRows = 5000

// expiredReason begins the reason of what expired; the time follows.
const expiredReason = "expired: not started"

// A job that was started once no longer expires. Its time is told as people
// read it, to the second.
var expireSQL = counted(
	`j as (
    delete from weir_jobs where id = any(array(
        select id from weir_jobs
        where expires_at is not null and started_at is null and expires_at <= (select coalesce($1::bigint, `+pgNow+`))
        order by expires_at limit $2 for update skip locked))
    returning *)`,
	`
insert into weir_dead (`+deadColumns+`)
`+fmt.Sprintf(deadFrom, `'`+KindExpired+`'`, `'`+expiredReason+` by ' || to_char(to_timestamp(j.expires_at / 1000000) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`,
		`null`, `j.claim`, `j.errors`, `coalesce($1::bigint, `+pgNow+`)`)+` from j order by j.id on conflict do nothing`,
	`
insert into weir_dead (`+deadColumns+`)
`+fmt.Sprintf(deadFrom, `'`+KindExpired+`'`, `'`+expiredReason+` by ' || strftime('%Y-%m-%dT%H:%M:%SZ', j.expires_at / 1000000, 'unixepoch')`,
		`null`, `j.claim`, `j.errors`, `$1`)+`
from weir_jobs j where j.id in (`+expiredIDs+`) order by j.id on conflict do nothing`,
)

const expiredIDs = `select id from weir_jobs where expires_at is not null and started_at is null and expires_at <= $1 order by expires_at limit $2`

var expireDeleteSQL = &statement{sqlite: `delete from weir_jobs where id in (` + expiredIDs + `)`}

// expire dead-letters pending jobs that were to be started before now.
func (s *Store) expire(ctx context.Context, t *tx) (int, error) {
	now := s.given()
	n, err := s.bury(ctx, t, expireSQL, now, expireRows)
	if err == nil && s.target.dialect == SQLite {
		_, err = s.exec(ctx, t, expireDeleteSQL, now, expireRows)
	}
	if err != nil {
		return 0, fmt.Errorf("end jobs that were not started in time: %w", err)
	}
	return int(n), nil
}
