// Package bucket holds the arithmetic of Weir's limits: rate strings such as
// "100/m", and the token bucket that admits starts under them.
//
// Everything here is a plain value. Nothing reads a clock, does I/O, starts a
// goroutine or panics; a method that changes a bucket returns the changed copy.
// Storing a bucket, locking it and reading the clock are the caller's work.
//
// # Clock
//
// A time is a whole number of microseconds since the Unix epoch (UTC), given by
// the caller. [Bucket.Refill] credits the time since the bucket's stamp. A clock
// that stepped back by up to a second earns nothing and the stamp stays, so no
// moment is credited twice. One that stepped back further earns nothing either,
// and the stamp becomes the new time, so the bucket does not wait for the old
// time to come round again. A step forward, or a machine that slept, adds at
// most one full bucket.
//
// # Arithmetic
//
// A level is counted in millionths of a token, and what is smaller than that is
// carried in a remainder: no fraction is ever lost, however often the bucket is
// asked. At 6/m ten refills of one second give exactly one token, and so do ten
// million refills that add up to the same ten seconds. Elapsed time is cut to
// the time the bucket needs to be full before it is multiplied, and products
// have 128 bits: no input overflows. A bucket that is full carries no remainder.
// The level is never below zero nor above the capacity, and a refused attempt
// changes nothing at all.
//
// # Bound
//
// The capacity is the burst where there is one, else the rate's count; a new
// bucket starts full. In any interval of length L, whatever its beginning,
//
//	starts <= capacity + L x COUNT / PERIOD
//
// so 100/m lets 100 start at once and 200 in the first minute, then 100 in each
// further one. An idle month is worth one full bucket, not more.
//
// # A rate change
//
// Call [Bucket.Refill] first: the time that has passed is credited at the rate
// that was in force. [Bucket.Switch] then keeps the level, or cuts it to the new
// capacity. It never adds to it: a larger limit has to be earned, and changing a
// rate back and forth mints nothing.
package bucket
