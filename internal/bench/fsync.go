package bench

import (
	"errors"
	"fmt"
	"os"

	"github.com/weirq/weir/internal/clock"
)

// Fsync measures what durability costs in a folder: the time of so many
// appends of 8 KiB, each with an fsync, in milliseconds. Every commit of a job
// system waits for at least one.
func Fsync(folder string, n int) (s Summary, err error) {
	f, err := os.CreateTemp(folder, "weir-fsync-")
	if err != nil {
		return Summary{}, fmt.Errorf("fsync probe: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 8<<10)
	times := make([]float64, n)
	for i := range times {
		start := clock.System{}.Now()
		if _, err := f.Write(page); err != nil {
			return Summary{}, fmt.Errorf("fsync probe: %w", err)
		}
		if err := f.Sync(); err != nil {
			return Summary{}, fmt.Errorf("fsync probe: %w", err)
		}
		times[i] = clock.System{}.Now().Sub(start).Seconds() * 1000
	}
	return Summarize(times), nil
}
