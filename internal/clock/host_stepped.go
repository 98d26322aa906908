//go:build weir_stepped_clock

package clock

import (
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// stepped is by how much this host's clock is wrong: what the file says that
// the environment names, such as -1h. It is for programs that show what becomes
// of Weir when a clock is set; no other is built so.
var stepped struct {
	sync.Mutex
	by   time.Duration
	read time.Time
}

func hostTime() time.Time {
	now := time.Now()
	stepped.Lock()
	defer stepped.Unlock()
	if now.Sub(stepped.read) > time.Millisecond {
		stepped.by, stepped.read = 0, now
		if path := os.Getenv("WEIR_STEPPED_CLOCK"); path != "" {
			text, _ := os.ReadFile(path)
			stepped.by, _ = time.ParseDuration(strings.TrimSpace(string(text)))
		}
	}
	set := now.Add(stepped.by)
	// A host's clock that is set leaves the monotonic one alone, which is the
	// second word of a time.
	(*[2]int64)(unsafe.Pointer(&set))[1] = (*[2]int64)(unsafe.Pointer(&now))[1]
	return set
}
