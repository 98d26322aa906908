package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // driver "sqlite"
)

// openSQLite opens a file for a peer, as durable as Weir does. The driver is
// the same for all. One connection is what they ask for.
func openSQLite(path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "cache_size(-32000)", "journal_mode(wal)", "synchronous(full)"}, "_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// parseRate reads COUNT/s.
func parseRate(text string) (float64, error) {
	count, ok := strings.CutSuffix(text, "/s")
	perSecond, err := strconv.ParseFloat(count, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("rate %q: use COUNT/s", text)
	}
	return perSecond, nil
}
