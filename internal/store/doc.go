// Package store holds every SQL statement of Weir, the two dialects side by
// side, and nothing else: who may start is decided above it, on values.
//
// The one transaction in which a process asks its lines and limits is Turn.
// Every write can be repeated or found again by its id, because the outcome
// of a commit can be unknown: an insert by the job's id, a claim by its claim
// id, a result by (job, claim).
//
// Times are microseconds since 1970, UTC, as in the tables.
package store
