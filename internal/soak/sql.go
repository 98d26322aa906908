package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/lib/pq" // driver "postgres"
)

// server is the address of a PostgreSQL server, to be asked beside Weir.
type server string

// exec runs statements.
func (s server) exec(ctx context.Context, statements ...string) error {
	db, err := sql.Open("postgres", string(s))
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// number asks for one number.
func (s server) number(ctx context.Context, question string) (n int64, err error) {
	db, err := sql.Open("postgres", string(s))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	if err = db.QueryRowContext(ctx, question).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: %w", question, err)
	}
	return n, nil
}

// until waits until a count is not zero.
func (s server) until(ctx context.Context, question string) error {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); ; {
		n, err := s.number(ctx, question)
		if n > 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v: %w", question, patience, err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// answers tells whether it can be asked something.
func (s server) answers(ctx context.Context) bool {
	_, err := s.number(ctx, `select 1`)
	return err == nil
}
