// Package scheduler runs jobs: tasks with their limits, the loop that admits
// what may start, workers, retries and leases.
package scheduler
