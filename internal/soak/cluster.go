package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs are those of one version of PostgreSQL.
type programs struct{ bin, libraries string }

// installed are the programs of the server that scripts/postgres has started.
func installed() (programs, error) {
	bin := os.Getenv("WEIR_POSTGRES_BIN")
	if bin == "" {
		return programs{}, errors.New("WEIR_POSTGRES_BIN is not set: scripts/soak sets it")
	}
	return programs{bin: bin, libraries: os.Getenv("WEIR_POSTGRES_LIBRARIES")}, nil
}

// eighteen are those of PostgreSQL 18, which scripts/soak fetches.
func eighteen() (programs, error) {
	bin := os.Getenv("WEIR_POSTGRES18_BIN")
	if bin == "" {
		return programs{}, missing("PostgreSQL 18 could not be fetched")
	}
	return programs{bin: bin}, nil
}

// cluster is a PostgreSQL server of a fault's own, to be restarted, killed, or
// given another clock. It ends with the sea.
type cluster struct {
	programs

	name, dir string
	port      int
	password  string
	env       []string // NAME=VALUE: what the programs alone get
	as        []string // what makes a command unprivileged
	server    *process
}

// cluster makes a server and starts it.
func (s *sea) cluster(ctx context.Context, name string, p programs) (*cluster, error) {
	c, err := s.emptyCluster(name, p)
	if err != nil {
		return nil, err
	}
	return c, c.create(ctx)
}

// create fills an empty cluster and starts it.
func (c *cluster) create(ctx context.Context) error {
	password := filepath.Join(c.dir, "password")
	if err := os.WriteFile(password, []byte(c.password), 0o644); err != nil { // the folder around it is closed
		return err
	}
	if err := c.run(ctx, "initdb", "-D", "data", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "--auth=md5", "--pwfile=password"); err != nil {
		return err
	}
	return c.start(ctx)
}

// emptyCluster is one without data.
func (s *sea) emptyCluster(name string, p programs) (*cluster, error) {
	c := &cluster{programs: p, name: name, dir: filepath.Join(s.dir, name), password: rand.Text()}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return nil, err
	}
	s.atEnd(func() { c.end(syscall.SIGQUIT) })
	return c, c.unprivileged()
}

// unprivileged finds a user for the server, which refuses to run as root.
func (c *cluster) unprivileged() error {
	c.as = []string{"setpriv", "--pdeathsig", "QUIT"}
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	c.as = append(c.as, "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups")
	return os.Chown(c.dir, uid, gid)
}

func (c *cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	line := slices.Concat(c.as, []string{"env"}, c.env, []string{c.path(program)}, args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "PGPASSWORD="+c.password)
	if c.libraries != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+c.libraries)
	}
	return cmd
}

// path is where a program is: those of the clients may be installed where the
// server is not.
func (p programs) path(program string) string {
	path := filepath.Join(p.bin, program)
	if _, err := os.Stat(path); err != nil {
		if others, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); len(others) > 0 {
			return others[0]
		}
	}
	return path
}

// run runs a program of the cluster's to its end.
func (c *cluster) run(ctx context.Context, program string, args ...string) error {
	var out bytes.Buffer
	cmd := c.command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s of %s: %w: %s", program, c.name, err, out.Bytes())
	}
	return nil
}

// start starts the server, on the port it had, and waits until it answers.
func (c *cluster) start(ctx context.Context) error {
	for {
		fresh := c.port == 0
		if fresh {
			c.port = freePort()
		}
		err := c.launch(ctx)
		if err == nil || !fresh || !strings.Contains(c.log(), "could not bind") {
			return err
		}
		c.port = 0
	}
}

// freePort is one below the range that systems hand out by themselves; whether
// it is free is seen by who takes it.
func freePort() int { return 20000 + mathrand.IntN(12000) }

func (c *cluster) launch(ctx context.Context) (err error) {
	log, err := appendTo(c.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.command(context.WithoutCancel(ctx), "postgres", "-D", "data", "-h", "127.0.0.1", "-p", strconv.Itoa(c.port), "-k", c.dir, "-N", "100")
	cmd.Stdout, cmd.Stderr = log, log
	if c.server, err = begin(cmd); err != nil {
		return err
	}
	for {
		if c.sql().answers(ctx) {
			return nil
		}
		select {
		case <-c.server.ended:
			return fmt.Errorf("%s did not start: %w", c.name, c.server.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// end ends the server with a signal, as pg_ctl does: SIGINT is its mode fast,
// SIGQUIT its mode immediate.
func (c *cluster) end(with syscall.Signal) { c.server.end(with) }

func (c *cluster) dsn() string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", c.password, c.port)
}

// sql is the server as it is asked beside Weir.
func (c *cluster) sql() server { return server(c.dsn()) }

func (c *cluster) logFile() string { return c.dir + ".log" }

func (c *cluster) log() string {
	text, _ := os.ReadFile(c.logFile())
	return string(text)
}
