package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// stores makes the fresh stores that cells run on.
type stores struct {
	folder   string // everything that this run puts on the disk itself
	admin    *pgx.Conn
	adminURL *url.URL
	server   int    // PostgreSQL's process id, or 0
	redis    string // the server's program
	made     int
	// missing says why a store is not there.
	missing map[string]error
	// settings are what the stores say of themselves.
	settings map[string]string
}

func openStores(ctx context.Context, dsn string, wanted func(store string) bool) (*stores, error) {
	folder, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	s := &stores{folder: folder, missing: map[string]error{}, settings: map[string]string{
		sqlite: "journal_mode wal, synchronous full, modernc.org/sqlite",
	}}
	if wanted(postgres) {
		if err := s.findPostgres(ctx, dsn); err != nil {
			s.missing[postgres] = err
		}
	}
	if wanted(redis) {
		if err := s.findRedis(ctx); err != nil {
			s.missing[redis] = err
		}
	}
	return s, nil
}

func (s *stores) close() error {
	var err error
	if s.admin != nil {
		err = s.admin.Close(context.Background())
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

// findPostgres looks at a server, and refuses one that is not durable: it
// would be another race.
func (s *stores) findPostgres(ctx context.Context, dsn string) error {
	if dsn == "" {
		return errors.New("no server: scripts/postgres could not start one, and none was named by -postgres")
	}
	var err error
	if s.adminURL, err = url.Parse(dsn); err != nil {
		return err
	}
	if s.admin, err = pgx.Connect(ctx, dsn); err != nil {
		return err
	}
	var version, fsync, synchronous, buffers string
	var backend int
	err = s.admin.QueryRow(ctx, `
select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('shared_buffers'), pg_backend_pid()`).Scan(&version, &fsync, &synchronous, &buffers, &backend)
	if err != nil {
		return err
	}
	if fsync != "on" || synchronous != "on" {
		return fmt.Errorf("fsync is %s and synchronous_commit is %s: both have to be on", fsync, synchronous)
	}
	s.settings[postgres] = fmt.Sprintf("%s, fsync on, synchronous_commit on, shared_buffers %s", version, buffers)
	if stat, ok := readStat(fmt.Sprintf("/proc/%d/stat", backend)); ok && local(s.adminURL.Hostname()) {
		s.server = stat.parent
	}
	return nil
}

func local(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// findRedis asks the script beside this program for a server.
func (s *stores) findRedis(ctx context.Context) error {
	script, err := beside("bench/redis-server")
	if err != nil {
		return err
	}
	var out, failed bytes.Buffer
	cmd := exec.CommandContext(ctx, script)
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bench/redis-server: %w: %s", err, strings.TrimSpace(failed.String()))
	}
	s.redis = strings.TrimSpace(out.String())
	version, err := exec.CommandContext(ctx, s.redis, "--version").Output()
	if err != nil {
		return err
	}
	for field := range strings.FieldsSeq(string(version)) {
		if v, ok := strings.CutPrefix(field, "v="); ok {
			s.settings[redis] = v + ", as it comes (snapshots, no append-only file), or with appendonly yes and appendfsync always"
		}
	}
	return nil
}

// beside finds a file of the repository from the folder the program runs in.
func beside(path string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		found := filepath.Join(dir, path)
		if _, err := os.Stat(found); err == nil {
			return found, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is in no folder above: run this in bench/", path)
		}
		dir = filepath.Dir(dir)
	}
}

// store is a fresh store.
type store struct {
	target string
	server int
	remove func() error
}

// fresh makes one for a row.
func (s *stores) fresh(ctx context.Context, r row) (store, error) {
	if err := s.missing[r.Store]; err != nil {
		return store{}, err
	}
	s.made++
	name := fmt.Sprintf("bench_%d_%d", os.Getpid(), s.made)
	switch r.Store {
	case postgres:
		return s.freshPostgres(ctx, name)
	case redis:
		return s.freshRedis(ctx, name, r.Variant == appendfsync)
	}
	dir := filepath.Join(s.folder, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return store{}, err
	}
	return store{target: filepath.Join(dir, "jobs.db"), remove: func() error { return os.RemoveAll(dir) }}, nil
}

// freshPostgres makes a database. What the one before left to be written is
// written first.
func (s *stores) freshPostgres(ctx context.Context, name string) (store, error) {
	for _, command := range []string{`create database ` + name, `checkpoint`} {
		if _, err := s.admin.Exec(ctx, command); err != nil {
			return store{}, fmt.Errorf("%s: %w", command, err)
		}
	}
	u := *s.adminURL
	u.Path = "/" + name
	return store{target: u.String(), server: s.server, remove: func() error {
		_, err := s.admin.Exec(context.WithoutCancel(ctx), `drop database `+name+` with (force)`)
		return err
	}}, nil
}

// freshRedis starts a server on a port that is free, in a folder of its own.
func (s *stores) freshRedis(ctx context.Context, name string, durable bool) (store, error) {
	dir := filepath.Join(s.folder, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return store{}, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return store{}, err
	}
	args := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir}
	if durable {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	cmd := exec.CommandContext(ctx, s.redis, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return store{}, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	remove := func() error {
		_ = cmd.Process.Kill() // nothing in it is worth a snapshot
		_ = cmd.Wait()
		return os.RemoveAll(dir)
	}
	if err := answers(ctx, address); err != nil {
		return store{}, errors.Join(err, remove())
	}
	return store{target: address, server: cmd.Process.Pid, remove: remove}, nil
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("not a port: %v", l.Addr())
	}
	return address.Port, l.Close()
}

func answers(ctx context.Context, address string) error {
	var dialer net.Dialer
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server: %w", err)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
