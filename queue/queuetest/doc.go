// Package queuetest helps to test programs that use Weir. It has a database
// that is gone when the test ends ([Open]), a clock that the test moves
// ([NewClock]), questions about what was enqueued ([RequireEnqueued]), and a way
// to run it ([Drain]).
//
// A test with a clock of its own waits for nothing: a job that is due in an hour
// runs when the test advances the clock by an hour. Times that Weir stores come
// from that clock too; only the ids of jobs are made by the real one.
//
// The database is SQLite in a file. It behaves as PostgreSQL does in all that
// Weir promises; what a program does with its own SQL beside Weir wants a test
// on the database it will meet.
package queuetest
