package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is processor time in seconds.
type usage struct{ process, server float64 }

// usage reads what this process and the store's server have used so far.
func (s spec) usage() (usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}, fmt.Errorf("getrusage: %w", err)
	}
	u := usage{process: seconds(r.Utime) + seconds(r.Stime)}
	if s.Server == 0 {
		return u, nil
	}
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return usage{}, err
	}
	for _, path := range processes {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		stat, ok := readStat(path)
		if !ok {
			continue // it has ended
		}
		switch {
		case pid == s.Server:
			u.server += stat.used + stat.ofChildren
		case stat.parent == s.Server:
			u.server += stat.used
		}
	}
	return u, nil
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// stat is what Linux says of a process; ofChildren are those that have ended.
type stat struct {
	parent           int
	used, ofChildren float64
}

func readStat(path string) (stat, bool) {
	const ticks = 100 // a second, on every Linux that matters
	text, err := os.ReadFile(path)
	if err != nil {
		return stat{}, false
	}
	// The name of the program, in brackets, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return stat{}, false
	}
	number := func(i int) float64 {
		n, _ := strconv.ParseFloat(fields[i], 64)
		return n
	}
	return stat{
		parent: int(number(1)),
		used:   (number(11) + number(12)) / ticks, ofChildren: (number(13) + number(14)) / ticks,
	}, true
}

// watchMemory returns a function that says how much more memory this process
// has held since, at most, in MiB; 0 where the system does not say.
func watchMemory(ctx context.Context) func() float64 {
	debug.FreeOSMemory()
	base := residentMiB()
	ctx, cancel := context.WithCancel(ctx)
	most := make(chan float64)
	go func() {
		peak := base
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				peak = max(peak, residentMiB())
			case <-ctx.Done():
				tick.Stop()
				most <- peak
				return
			}
		}
	}()
	return func() float64 {
		cancel()
		return <-most - base
	}
}

func residentMiB() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()) / (1 << 20)
}
