// Package dlq is for the jobs that will not run again by themselves: read,
// replay and purge dead letters.
//
// A job becomes a dead letter when its last attempt failed or its handler gave
// it up ([Failed]), when there was no token for it and its task drops excess
// ([Shed]), or when it was not started in time ([Expired]). The entry keeps all
// that the job had, why it died, and the errors of its attempts.
//
//	letters := dlq.From(client)
//	result, err := letters.ReplayWhere(ctx, dlq.Filter{Kind: dlq.Failed, Task: "send_email"})
//
// One type serves the command line, servers and tests: [Letters] lists, counts
// and exports them, replays and purges them, one, several or by a [Filter].
//
// # What is guaranteed
//
// A replay is one transaction: the entry goes and a new job comes, or neither.
// However many people replay the same entry at the same time, one job comes of
// it. The new job has an id of its own, the id of the one that died
// (replay_of), its arguments, metadata, queue, priority, unique key, retries and
// timeout, no attempts behind it, and a new place in line. Arguments move within
// the database, whatever their size.
//
// Where a live job holds the unique key, the entry stays and the answer says
// which job that is.
//
// A replay or purge by filter takes what was there when it began. It ends even
// if what it replays dies again at once. It may be stopped at any time and made
// again.
//
// What is done is recorded in the transactions that do it, with the name that
// [WithActor] gives.
//
// Counts are kept by the transactions that make dead letters and take them away:
// they are never walked for.
//
// # What is not guaranteed
//
// A replayed job passes the same limits as any other and may meet the same fate;
// it then is a new entry, with one more replay.
//
// By filter, up to 500 entries go in one transaction, not all: an error in the
// middle leaves the rest as it was.
package dlq
