package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/weirq/weir/internal/clock"
)

// selectJSON asks with one set, as a JSON document in $1.
func selectJSON[T any](ctx context.Context, s *Store, h Handle, st *statement, set any, more ...any) ([]T, error) {
	doc, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encode a set of parameters: %w", err)
	}
	return selectRows[T](ctx, h, s.text(st), append([]any{string(doc)}, more...)...)
}

// selectRows reads all rows of a question. One that is asked outside of a
// transaction is asked again where the server's default isolation made it fail.
func selectRows[T any](ctx context.Context, h Handle, text string, args ...any) ([]T, error) {
	_, alone := h.(*pool)
	for attempt := 1; ; attempt++ {
		out, err := selectOnce[T](ctx, h, text, args...)
		if !alone || !transient(err) || attempt == maxAttempts || ctx.Err() != nil {
			return out, err
		}
		clock.Pause(ctx, apart(attempt))
	}
}

func selectOnce[T any](ctx context.Context, h Handle, text string, args ...any) ([]T, error) {
	rows, err := h.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, cancelled(ctx, err)
	}
	defer rows.Close()
	var out []T
	if err := sqlx.StructScan(rows, &out); err != nil {
		return nil, cancelled(ctx, err)
	}
	return out, rows.Err()
}

// selectRow reads the one row of a question that has one whatever is stored.
func selectRow[T any](ctx context.Context, h Handle, text string, args ...any) (row T, err error) {
	rows, err := selectRows[T](ctx, h, text, args...)
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("%d rows came where one is certain", len(rows))
	}
	if err != nil {
		return row, err
	}
	return rows[0], nil
}

// execJSON runs a statement for one set, as a JSON document in $1, and
// returns how many rows it touched.
func (s *Store) execJSON(ctx context.Context, h Handle, st *statement, set any, more ...any) (int64, error) {
	doc, err := json.Marshal(set)
	if err != nil {
		return 0, fmt.Errorf("encode a set of parameters: %w", err)
	}
	return s.exec(ctx, h, st, append([]any{string(doc)}, more...)...)
}

// document is a set as one parameter, a JSON array: [] where there is none.
func document[T ~string | ~int64 | ~int16](set []T) string {
	if len(set) == 0 {
		return "[]"
	}
	doc, _ := json.Marshal(set) //nolint:errchkjson // texts and numbers always encode
	return string(doc)
}

// exec runs a statement and returns how many rows it touched.
func (s *Store) exec(ctx context.Context, h Handle, st *statement, args ...any) (int64, error) {
	return affected(h.ExecContext(ctx, s.text(st), args...))
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
