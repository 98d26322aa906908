// Package bench measures job systems: how fast jobs are enqueued, how fast a
// backlog is worked off, how soon a worker begins what just came. The work is
// written once, against [System]; Weir is one of the systems. `weir bench` runs
// it for Weir alone, and the module in bench/ for Weir and its peers.
package bench
