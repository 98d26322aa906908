// Package cron reads when a schedule is due and computes its ticks: values
// only, no clock.
//
// A cron spec has five fields, minute, hour, day of the month, month and
// weekday, read by robfig/cron, or is one of its descriptors (@daily), or an
// interval (@every 10m). Fields are read on the clock of a named zone. Where
// that clock is changed:
//
//   - A time that is left out (02:30 when the clock goes from 02:00 to 03:00)
//     is made up for when the clock has been put forward (at 03:00), once
//     however many times were left out. An entry for every hour has nothing to
//     make up for.
//   - A time that comes twice (01:30 when the clock goes from 02:00 back to
//     01:00) counts the first time. An entry for every hour, or for several
//     minutes of an hour, counts both times.
//
// So a daily entry is due once a day, every day, and finer ones go on evenly.
package cron
