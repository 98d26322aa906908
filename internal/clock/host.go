//go:build !weir_stepped_clock

package clock

import "time"

func hostTime() time.Time { return time.Now() }
