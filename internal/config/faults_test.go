package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/queue"
)

// faults reads a file and returns its findings, a line each.
func faults(t *testing.T, content string) []string {
	t.Helper()
	_, err := Parse("weir.yaml", []byte(content))
	if err == nil {
		return nil
	}
	var fe *FileError
	require.ErrorAs(t, err, &fe)
	lines := make([]string, 0, len(fe.Findings))
	for _, f := range fe.Findings {
		lines = append(lines, f.Error())
	}
	return lines
}

// task is a file with one task that has these keys, from line 3 on.
func task(keys string) string {
	return "tasks:\n  t:\n    exec: {command: [\"true\"]}\n    " + keys + "\n"
}

func TestEachFaultHasItsCodePlaceKeyTextAndMend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, content, want string }{
		{
			"a key that is nearly right", "tasks:\n  t:\n    exec: {command: [\"true\"]}\n    rate_limt: 100/m\n",
			`weir.yaml:4:5: W111 tasks.t.rate_limt: unknown key "rate_limt": did you mean "rate_limit"?`,
		},
		{
			"a key with the letters of another", "concurency: 5\n",
			`weir.yaml:1:1: W111 concurency: unknown key "concurency": did you mean "concurrency"?`,
		},
		{
			"a key like no other", "tasks:\n  t: {exec: {command: [\"true\"], nice: 5}}\n",
			`weir.yaml:2:33: W111 tasks.t.exec.nice: unknown key "nice": use one of command, dir`,
		},
		{
			"a hyphen for an underscore", task("max-retries: 3"),
			`weir.yaml:4:5: W111 tasks.t.max-retries: unknown key "max-retries": did you mean "max_retries"?`,
		},
		{
			"a limit's key on a task", task("rate: 100/m"),
			`weir.yaml:4:5: W111 tasks.t.rate: unknown key "rate": here it is called "rate_limit"`,
		},
		{
			"on_excess on a queue", "queues:\n  q: {rate_limit: 1/s, on_excess: drop}\n",
			`weir.yaml:2:24: W111 queues.q.on_excess: unknown key "on_excess": it belongs to a task: whatever limit refuses a job, its task says what happens to it`,
		},
		{
			"a key twice", task("queue: a\n    queue: b"),
			`weir.yaml:5:5: W104 tasks.t.queue: key "queue" is there already, on line 4: keep one of them`,
		},
		{
			"a task twice", "tasks:\n  a: {exec: {command: [\"true\"]}}\n  a: {exec: {command: [\"true\"]}}\n",
			`weir.yaml:3:3: W104 tasks.a: key "a" is there already, on line 2: keep one of them`,
		},
		{
			"a list where a mapping belongs", "tasks: [a, b]\n",
			`weir.yaml:1:8: W112 tasks: it is a list: give a mapping of keys and values`,
		},
		{
			"a mapping where a text belongs", task("queue: {name: q}"),
			`weir.yaml:4:12: W112 tasks.t.queue: it is a mapping: give the name of a queue`,
		},
		{
			"a text where a number belongs", "concurrency: many\n",
			`weir.yaml:1:14: W112 concurrency: it is "many", text: give a whole number from 1 to 100000, in plain digits`,
		},
		{
			"a key without a value", task("queue:"),
			`weir.yaml:4:5: W112 tasks.t.queue: "queue" has no value: give the name of a queue, or leave the key out`,
		},
		{
			"a rate in another unit", task("rate_limit: 100/mo"),
			`weir.yaml:4:17: W121 tasks.t.rate_limit: task "t": rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`,
		},
		{
			"a rate that is a number", task("rate_limit: 100"),
			`weir.yaml:4:17: W121 tasks.t.rate_limit: task "t": rate "100": no "/": write a count and a period, as in "100/m"`,
		},
		{
			"a rate of a queue", "queues:\n  mail: {rate_limit: 0/s}\n",
			`weir.yaml:2:22: W121 queues.mail.rate_limit: queue "mail": rate "0/s": count "0" is below 1: use at least 1 and a longer period, as in "1/15m"`,
		},
		{
			"a rate of a limit", "tasks:\n  t: {elsewhere: true}\nlimits:\n  api: {rate: fast, tasks: [t]}\n",
			`weir.yaml:4:15: W121 limits.api.rate: limit "api": rate "fast": no "/": write a count and a period, as in "100/m"`,
		},
		{
			"a rate in a mapping", task(`rate_limit: {rate: "1/0s", burst: 5}`),
			`weir.yaml:4:24: W121 tasks.t.rate_limit.rate: task "t": rate "1/0s": period "0s" is zero: use a multiplier of at least 1, as in "5/30s"`,
		},
		{
			"a mapping without a rate", task(`rate_limit: {burst: 5}`),
			`weir.yaml:4:17: W114 tasks.t.rate_limit: task "t": no rate: add one, as in {rate: 100/m, burst: 20}`,
		},
		{
			"a list of rates of a queue", "queues:\n  mail: {rate_limit: [5/s, 100/m]}\n",
			`weir.yaml:2:22: W112 queues.mail.rate_limit: queue "mail": a list of rates belongs to a task: keep one, and write a limit of its own for each of the others`,
		},
		{
			"a list of rates of a limit", "limits:\n  api: {rate: [5/s, 100/m], queues: [default]}\n",
			`weir.yaml:2:15: W112 limits.api.rate: limit "api": a list of rates belongs to a task: keep one, and write a limit of its own for each of the others`,
		},
		{
			"an empty list of rates", task(`rate_limit: []`),
			`weir.yaml:4:17: W121 tasks.t.rate_limit: task "t": the list of rates is empty: name at least one, as in [{rate: 5/s, burst: 10}, 100/m]`,
		},
		{
			"a bad rate in a list", task(`rate_limit: [5/s, 100/mo]`),
			`weir.yaml:4:23: W121 tasks.t.rate_limit[1]: task "t": rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`,
		},
		{
			"a bad rate in a mapping of a list", task(`rate_limit: [{rate: 5, burst: 5}]`),
			`weir.yaml:4:25: W121 tasks.t.rate_limit[0].rate: task "t": rate "5": no "/": write a count and a period, as in "100/m"`,
		},
		{
			"a bad burst in a list", task(`rate_limit: [{rate: 5/s, burst: 0}]`),
			`weir.yaml:4:37: W122 tasks.t.rate_limit[0].burst: burst "0": use a whole number from 1 to 1000000000, in plain digits`,
		},
		{
			"a mapping in a list without a rate", task(`rate_limit: [5/s, {burst: 5}]`),
			`weir.yaml:4:23: W114 tasks.t.rate_limit[1]: task "t": no rate: add one, as in {rate: 100/m, burst: 20}`,
		},
		{
			"a list in a list", task(`rate_limit: [5/s, [100/m]]`),
			`weir.yaml:4:23: W112 tasks.t.rate_limit[1]: it is a list: give a rate, as in "100/m"`,
		},
		{
			"nothing in a list", task("rate_limit:\n    - 5/s\n    -"),
			`weir.yaml:6:7: W112 tasks.t.rate_limit[1]: it is nothing: give a rate, as in "100/m"`,
		},
		{
			"one period twice in a list", task(`rate_limit: [5/s, 100/m, {rate: 200/60s}]`),
			`weir.yaml:4:37: W121 tasks.t.rate_limit[2].rate: task "t": "100/m" and "200/60s" have the same period: keep the smaller`,
		},
		{
			"a burst beside a list", task("rate_limit: [5/s, 100/m]\n    burst: 20"),
			`weir.yaml:5:5: W122 tasks.t.burst: task "t": a burst beside a list of rates: give each rate its own, as in [{rate: 5/s, burst: 10}, 100/m]`,
		},
		{
			"a defer inside a list", task(`rate_limit: [{rate: 5/s, defer: until_token}]`),
			`weir.yaml:4:30: W111 tasks.t.rate_limit[0].defer: unknown key "defer": write it beside "rate_limit"`,
		},
		{
			"no concurrency of a task", task("concurrency: 0"),
			`weir.yaml:4:18: W128 tasks.t.concurrency: concurrency "0": use a whole number from 1 to 100000, in plain digits`,
		},
		{
			"no concurrency of a queue", "queues:\n  q: {concurrency: -1}\n",
			`weir.yaml:2:20: W128 queues.q.concurrency: concurrency "-1": use a whole number from 1 to 100000, in plain digits`,
		},
		{
			"a breaker that is a number", task("breaker: 10"),
			`weir.yaml:4:14: W112 tasks.t.breaker: it is "10", a number: give {failures: 10, window: 1m, open: 30s, probes: 1}`,
		},
		{
			"a breaker that nothing opens", task("breaker: {window: 1m}"),
			`weir.yaml:4:14: W114 tasks.t.breaker: task "t": no "failures": say how many open the breaker, as in {failures: 10, window: 1m, open: 30s, probes: 1}`,
		},
		{
			"a breaker that is always open", task("breaker: {failures: 0}"),
			`weir.yaml:4:25: W128 tasks.t.breaker.failures: failures "0": use a whole number from 1 to 1000000, in plain digits`,
		},
		{
			"a breaker without probes", task("breaker: {failures: 1, probes: 0}"),
			`weir.yaml:4:36: W128 tasks.t.breaker.probes: probes "0": use a whole number from 1 to 100000, in plain digits`,
		},
		{
			"a breaker's time without a unit", task("breaker: {failures: 1, open: 30}"),
			`weir.yaml:4:34: W127 tasks.t.breaker.open: open "30": no unit: use a time from 1ms to 366 days, as in 30s or 1h30m`,
		},
		{
			"a breaker's window of nothing", task("breaker: {failures: 1, window: 0s}"),
			`weir.yaml:4:36: W127 tasks.t.breaker.window: window "0s": out of range: use a time from 1ms to 366 days, as in 30s or 1h30m`,
		},
		{
			"a breaker's key of another system", task("breaker: {failures: 1, cooldown: 5s}"),
			`weir.yaml:4:28: W111 tasks.t.breaker.cooldown: unknown key "cooldown": here it is called "open"`,
		},
		{
			"a short retention", "retention: {completed: 30s}\n",
			`weir.yaml:1:24: W127 retention.completed: completed "30s": out of range: use 0 to keep them for ever, or a time from 1m to 36500 days, as in 24h`,
		},
		{
			"a retention in words", "retention: {completed: off}\n",
			`weir.yaml:1:24: W127 retention.completed: completed "off": not a time: use 0 to keep them for ever, or a time from 1m to 36500 days, as in 24h`,
		},
		{
			"a retention of everything", "retention: 24h\n",
			`weir.yaml:1:12: W112 retention: it is "24h", text: give {completed: 24h, failed: 720h}`,
		},
		{
			"a retention of cancelled jobs", "retention: {cancelled: 24h}\n",
			`weir.yaml:1:13: W111 retention.cancelled: unknown key "cancelled": "completed" is the retention of cancelled jobs too`,
		},
		{
			"a URL in the place of a mapping", "tasks:\n  t: {http: \"http://h/\"}\n",
			`weir.yaml:2:13: W112 tasks.t.http: it is "http://h/", text: give a URL, as in {url: "http://127.0.0.1:9000/send"}`,
		},
		{
			"a target without a URL", "tasks:\n  t: {http: {}}\n",
			`weir.yaml:2:13: W114 tasks.t.http: task "t": no "url": give a URL, as in {url: "http://127.0.0.1:9000/send"}`,
		},
		{
			"a method", "tasks:\n  t: {http: {url: \"http://h/\", method: PUT}}\n",
			`weir.yaml:2:32: W111 tasks.t.http.method: unknown key "method": jobs are posted: leave it out`,
		},
		{
			"headers in a list", "tasks:\n  t: {http: {url: \"http://h/\", headers: [a]}}\n",
			`weir.yaml:2:41: W112 tasks.t.http.headers: it is a list: give names and values, as in {X-Team: mail}`,
		},
		{
			"a task with two targets that run here", "tasks:\n  t: {http: {url: \"http://h/\"}, exec: {command: [\"true\"]}}\n",
			`weir.yaml:2:3: W134 tasks.t: task "t" has several targets: http and exec: keep one of them`,
		},
		{
			"a URL outside its mapping", task(`url: "http://h/"`),
			`weir.yaml:4:5: W111 tasks.t.url: unknown key "url": write it under "http", as in http: {url: "http://127.0.0.1:9000/send"}`,
		},
		{
			"a burst of nothing", task("rate_limit: 100/m\n    burst: 0"),
			`weir.yaml:5:12: W122 tasks.t.burst: burst "0": use a whole number from 1 to 1000000000, in plain digits`,
		},
		{
			"a burst above all", task("rate_limit: {rate: 100/m, burst: 1000000001}"),
			`weir.yaml:4:38: W122 tasks.t.rate_limit.burst: burst "1000000001": use a whole number from 1 to 1000000000, in plain digits`,
		},
		{
			"a burst that reads as octal", task("rate_limit: 100/m\n    burst: 010"),
			`weir.yaml:5:12: W122 tasks.t.burst: burst "010": use a whole number from 1 to 1000000000, in plain digits`,
		},
		{
			"a fraction of a burst", task("rate_limit: 100/m\n    burst: 1.5"),
			`weir.yaml:5:12: W122 tasks.t.burst: burst "1.5": use a whole number from 1 to 1000000000, in plain digits`,
		},
		{
			"a burst without a rate", task("burst: 20"),
			`weir.yaml:4:12: W122 tasks.t.burst: task "t": burst 20 without a rate: add one, as in rate_limit: 100/m`,
		},
		{
			"two bursts", task("rate_limit: {rate: 100/m, burst: 5}\n    burst: 20"),
			`weir.yaml:5:5: W122 tasks.t.burst: "rate_limit" has a burst of its own: give the burst once`,
		},
		{
			"an unknown on_excess", task("on_excess: shed"),
			`weir.yaml:4:16: W123 tasks.t.on_excess: task "t": on_excess "shed": use "defer" (the default) or "drop"`,
		},
		{
			"an unknown defer", task("rate_limit: 100/m\n    defer: 5s"),
			`weir.yaml:5:12: W124 tasks.t.defer: task "t": defer "5s": use "until_token" (or "1s", the default)`,
		},
		{
			"a defer without a rate", task("defer: until_token"),
			`weir.yaml:4:12: W124 tasks.t.defer: task "t": defer "until_token" without a rate: add one, as in rate_limit: 100/m`,
		},
		{
			"an empty name", "tasks:\n  \"\": {exec: {command: [\"true\"]}}\n",
			`weir.yaml:2:3: W125 tasks."": task "": it is empty: use 1 to 255 bytes`,
		},
		{
			"a name with a control character", task(`queue: "a\tb"`),
			`weir.yaml:4:12: W125 tasks.t.queue: queue "a\tb": it has the control character U+0009 at byte 1: leave it out`,
		},
		{
			"a limit under a reserved name", "tasks:\n  t: {elsewhere: true}\nlimits:\n  \"queue:x\": {rate: 1/s, tasks: [t]}\n",
			`weir.yaml:4:3: W126 limits."queue:x": limit "queue:x": names that begin with "queue:" are Weir's own: choose another, as in "stripe"`,
		},
		{
			"a time without a unit", task("timeout: 30"),
			`weir.yaml:4:14: W127 tasks.t.timeout: timeout "30": no unit: use a time from 0s to 366 days, as in 30s or 1h30m`,
		},
		{
			"a time that is none", "shutdown_grace: soon\n",
			`weir.yaml:1:17: W127 shutdown_grace: shutdown_grace "soon": not a time: use a time from 0s to 24h, as in 30s or 1h30m`,
		},
		{
			"a negative time", task("timeout: -1s"),
			`weir.yaml:4:14: W127 tasks.t.timeout: timeout "-1s": out of range: use a time from 0s to 366 days, as in 30s or 1h30m`,
		},
		{
			"a short lease", "lease: 500ms\n",
			`weir.yaml:1:8: W127 lease: lease "500ms": out of range: use a time from 1s to 24h, as in 30s or 1h30m`,
		},
		{
			"a long lease", "lease: 25h\n",
			`weir.yaml:1:8: W127 lease: lease "25h": out of range: use a time from 1s to 24h, as in 30s or 1h30m`,
		},
		{
			"no concurrency", "concurrency: 0\n",
			`weir.yaml:1:14: W128 concurrency: concurrency "0": use a whole number from 1 to 100000, in plain digits`,
		},
		{
			"a great number", "concurrency: 99999999999999999999\n",
			`weir.yaml:1:14: W128 concurrency: concurrency "99999999999999999999": use a whole number from 1 to 100000, in plain digits`,
		},
		{
			"negative retries", task("max_retries: -1"),
			`weir.yaml:4:18: W128 tasks.t.max_retries: max_retries "-1": use a whole number from 0 to 1000000, in plain digits`,
		},
		{
			"a back-off that shrinks", task("retry_backoff: 0.5"),
			`weir.yaml:4:20: W129 tasks.t.retry_backoff: factor "0.5": use a number of at least 1, as in 2.0`,
		},
		{
			"a back-off that is no number", task("retry_backoff: .nan"),
			`weir.yaml:4:20: W129 tasks.t.retry_backoff: factor ".nan": use a number of at least 1, as in 2.0`,
		},
		{
			"a back-off without end", task("retry_backoff: {factor: .inf}"),
			`weir.yaml:4:29: W129 tasks.t.retry_backoff.factor: factor ".inf": use a number of at least 1, as in 2.0`,
		},
		{
			"much jitter", task("retry_backoff: {jitter: 1.5}"),
			`weir.yaml:4:29: W129 tasks.t.retry_backoff.jitter: jitter "1.5": use a number from 0 to 1`,
		},
		{
			"a ceiling below the base", task("retry_backoff: {base: 10s, max: 5s}"),
			`weir.yaml:4:37: W129 tasks.t.retry_backoff.max: max "5s" is below the base, 10s: use the base or more`,
		},
		{
			"a ceiling below the base that is the default", task("retry_backoff: {max: 500ms}"),
			`weir.yaml:4:26: W129 tasks.t.retry_backoff.max: max "500ms" is below the base, 1s: use the base or more`,
		},
		{
			"a ceiling beyond all times", task("retry_backoff: {max: 9000h}"),
			`weir.yaml:4:26: W127 tasks.t.retry_backoff.max: max "9000h": out of range: use a time from 1ms to 366 days, as in 30s or 1h30m`,
		},
		{
			"a back-off in words", task("retry_backoff: fast"),
			`weir.yaml:4:20: W112 tasks.t.retry_backoff: it is "fast", text: give a factor, as in 2.0, or {base: 1s, factor: 2, max: 10m, jitter: 0.1}`,
		},
		{
			"a database of another kind", "database: mysql://root@db/weir\n",
			`weir.yaml:1:11: W130 database: database "mysql://root@db/weir": unknown kind "mysql": use sqlite:PATH or postgres://USER@HOST/NAME`,
		},
		{
			"a database in memory", "database: \"sqlite::memory:\"\n",
			`weir.yaml:1:11: W130 database: database "sqlite::memory:": in memory its readers and its writer would not see each other: name a file, as in sqlite:weir.db`,
		},
		{
			"a database that is a path", "database: weir.db\n",
			`weir.yaml:1:11: W130 database: database "weir.db": no such form: use sqlite:PATH or postgres://USER@HOST/NAME`,
		},
		{
			"a schema of the server's own", "database: postgres://h/d?schema=pg_weir\n",
			`weir.yaml:1:11: W130 database: database "postgres://h/d?schema=pg_weir": schema "pg_weir" is the server's own: use another name, as in ?schema=weir`,
		},
		{
			"a parameter that SQLite does not know", "database: sqlite:weir.db?_sink=full\n",
			`weir.yaml:1:11: W130 database: database "sqlite:weir.db?_sink=full": unknown parameter "_sink": use one of SQLite's, as in ?_pragma=cache_size(-8000)`,
		},
		{
			"another strategy", "strategy: leaky_bucket\n",
			`weir.yaml:1:11: W131 strategy: strategy "leaky_bucket": use "token_bucket" (the default) or "fixed_window"`,
		},
		{
			"an unknown migrate", "migrate: never\n",
			`weir.yaml:1:10: W135 migrate: migrate "never": use "auto" (the default) or "check" (refuse a schema that is not up to date)`,
		},
		{
			"an empty command", "tasks:\n  t: {exec: {command: []}}\n",
			`weir.yaml:2:23: W132 tasks.t.exec.command: task "t": the command is empty: give a list of a program and its arguments, as in ["./run.sh", "--fast"]`,
		},
		{
			"a program without a name", "tasks:\n  t: {exec: {command: [\" \", a]}}\n",
			`weir.yaml:2:24: W132 tasks.t.exec.command[0]: task "t": the program's name is empty: give a list of a program and its arguments, as in ["./run.sh", "--fast"]`,
		},
		{
			"a command in one text", "tasks:\n  t: {exec: {command: ./run.sh --fast}}\n",
			`weir.yaml:2:23: W112 tasks.t.exec.command: it is "./run.sh --fast", text: give a list of a program and its arguments, as in ["./run.sh", "--fast"]`,
		},
		{
			"no command", "tasks:\n  t: {exec: {dir: x}}\n",
			`weir.yaml:2:13: W132 tasks.t.exec: task "t": no "command": give a command, as in {command: ["./run.sh"]}`,
		},
		{
			"a task that nothing runs", "tasks:\n  t: {queue: q}\n",
			`weir.yaml:2:3: W133 tasks.t: task "t" says nothing about what runs it: give it a command, as in exec: {command: ["./run.sh"]}, a URL, as in http: {url: "http://127.0.0.1:9000/send"}, or elsewhere: true if another process runs it`,
		},
		{
			"a task that says nothing", "tasks:\n  t:\n",
			`weir.yaml:2:3: W133 tasks.t: task "t" says nothing about what runs it: give it a command, as in exec: {command: ["./run.sh"]}, a URL, as in http: {url: "http://127.0.0.1:9000/send"}, or elsewhere: true if another process runs it`,
		},
		{
			"a task with two targets", task("elsewhere: true"),
			`weir.yaml:2:3: W134 tasks.t: task "t" has several targets: exec and elsewhere: keep one of them`,
		},
		{
			"elsewhere that is not true", "tasks:\n  t: {elsewhere: false}\n",
			`weir.yaml:2:18: W133 tasks.t.elsewhere: task "t": "elsewhere" says that it does not run elsewhere: remove the key and give it a command or a URL, or write true`,
		},
		{
			"elsewhere in words", "tasks:\n  t: {elsewhere: \"yes\"}\n",
			`weir.yaml:2:18: W112 tasks.t.elsewhere: it is "yes", text: give true`,
		},
		{
			"a limit on a task that is not there", "tasks:\n  charge_card: {elsewhere: true}\nlimits:\n  stripe: {rate: 1/s, tasks: [charge_crad]}\n",
			`weir.yaml:4:31: W141 limits.stripe.tasks[0]: limit "stripe": task "charge_crad" is not declared in this file: did you mean "charge_card"? Else declare it under "tasks", with elsewhere: true if another process runs it`,
		},
		{
			"a limit on a queue that is not there", "limits:\n  stripe: {rate: 1/s, queues: [pay]}\n",
			`weir.yaml:2:32: W142 limits.stripe.queues[0]: limit "stripe": queue "pay" is neither under "queues" nor the queue of a task: declare it as in queues: {pay: {}}`,
		},
		{
			"a limit that covers nothing", "limits:\n  stripe: {rate: 1/s}\n",
			`weir.yaml:2:3: W143 limits.stripe: limit "stripe" covers nothing: name what it covers, as in tasks: [one, two] or queues: [emails]`,
		},
		{
			"a limit without a rate", "limits:\n  stripe: {queues: [default]}\n",
			`weir.yaml:2:3: W114 limits.stripe: limit "stripe": no rate: add one, as in rate: 100/m`,
		},
		{
			"a limit with a task's key", "limits:\n  stripe: {rate_limit: 1/s, queues: [default]}\n",
			`weir.yaml:2:12: W111 limits.stripe.rate_limit: unknown key "rate_limit": here it is called "rate"`,
		},
		{
			"one name where a list belongs", "limits:\n  stripe: {rate: 1/s, queues: default}\n",
			`weir.yaml:2:31: W112 limits.stripe.queues: it is "default", text: give a list of names of queues, as in [one, two]`,
		},
		{
			"an alias of nothing", "tasks:\n  t: *base\n",
			`weir.yaml:2:6: W105 tasks.t: alias "*base" names no anchor above it: write &base before the value that is meant, above this line`,
		},
		{
			"a merge of an alias of nothing", "tasks:\n  t: {<<: *base, queue: q}\n",
			`weir.yaml:2:11: W105 tasks.t: alias "*base" names no anchor above it: write &base before the value that is meant, above this line`,
		},
		{
			"a merge of what is no mapping", "tasks:\n  t: {<<: [a], queue: q}\n",
			`weir.yaml:2:11: W105 tasks.t: << takes a mapping, and this is text: write << with an alias of a mapping, as in "<<: *defaults"`,
		},
		{
			"a limit on an alias of nothing", "limits:\n  l: {rate: 1/s, queues: [*queue]}\n",
			`weir.yaml:2:27: W105 limits.l.queues[0]: alias "*queue" names no anchor above it: write &queue before the value that is meant, above this line`,
		},
		{
			"a limit with a rate that is an alias of nothing", "limits:\n  l: {rate: *rate, queues: [default]}\n",
			`weir.yaml:2:13: W105 limits.l.rate: alias "*rate" names no anchor above it: write &rate before the value that is meant, above this line`,
		},
		{
			"two documents", "concurrency: 1\n---\nconcurrency: 2\n",
			`weir.yaml:3:1: W102 a second document: keep one document in a file, without a line of ---`,
		},
		{
			"no mapping at all", "just words\n",
			`weir.yaml:1:1: W112 it is "just words", text: give a mapping of keys and values`,
		},
		{
			"a retention of all dead letters", "retention: {dead: 24h}\n",
			`weir.yaml:1:13: W111 retention.dead: unknown key "dead": name the kinds of dead letters: shed, failed, expired`,
		},
		{
			"a short retention of dead letters", "retention: {shed: 30s}\n",
			`weir.yaml:1:19: W127 retention.shed: shed "30s": out of range: use a time from 1m to 36500 days, as in 24h`,
		},
		{
			"a retention of none", "retention: {shed: {count: 0}}\n",
			`weir.yaml:1:27: W128 retention.shed.count: count "0": use a whole number from 1 to 9223372036854775807, in plain digits`,
		},
		{
			"a retention of nothing", "retention: {shed: {}}\n",
			`weir.yaml:1:19: W114 retention.shed: neither an age nor a count of dead letters: give one of them or both, as in {age: 24h, count: 100000}`,
		},
		{
			"a retry of dead letters that is on", task("dlq_retry: true"),
			`weir.yaml:4:16: W112 tasks.t.dlq_retry: it is "true", true or false: give {after: 1h, max: 3}`,
		},
		{
			"a retry of dead letters without an end", task("dlq_retry: {after: 1h}"),
			`weir.yaml:4:16: W114 tasks.t.dlq_retry: task "t": no "max": give both, as in {after: 1h, max: 3}`,
		},
		{
			"a retry of dead letters at once", task("dlq_retry: {after: 0s, max: 3}"),
			`weir.yaml:4:24: W127 tasks.t.dlq_retry.after: after "0s": out of range: use a time from 1s to 366 days, as in 30s or 1h30m`,
		},
		{
			"more retries of dead letters than can be meant", task("dlq_retry: {after: 1h, max: 101}"),
			`weir.yaml:4:33: W128 tasks.t.dlq_retry.max: max "101": use a whole number from 1 to 100, in plain digits`,
		},
		{
			"a retry of dead letters in other words", task("dlq_retry: {after: 1h, max: 3, retries: 3}"),
			`weir.yaml:4:36: W111 tasks.t.dlq_retry.retries: unknown key "retries": here it is called "max"`,
		},
		{
			"bytes that are no text", "# caf\xe9\n",
			`weir.yaml:1:6: W102 not UTF-8 text: save the file as UTF-8`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := faults(t, c.content)
			if assert.NotEmpty(t, got, "%s", c.content) && !assert.Contains(t, got, c.want) {
				t.Logf("file:\n%s", c.content)
			}
			assert.Len(t, got, 1, "one slip is told once")
		})
	}
}

func TestEveryKeyOfALaterVersionIsRefusedAsSuchWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ content, at, key string }{
		{"tasks:\n  t: {pull: true}\n", "2:7", "tasks.t.pull"},
	} {
		key := c.key[strings.LastIndex(c.key, ".")+1:]
		want := fmt.Sprintf(`weir.yaml:%s: W113 %s: %q is not served by this version yet: remove it`, c.at, c.key, key)
		assert.Contains(t, faults(t, c.content), want)
	}
}

func TestAllFaultsOfAFileAreReportedAtOnceInItsOrder(t *testing.T) {
	t.Parallel()
	_, err := Load(write(t, `
concurrency: 0
tasks:
  send_email:
    rate_limit: 100/mo
    quueue: emails
    exec: {command: []}
  api_call:
    rate_limit: nan/s
limits:
  stripe: {rate: 1/s, tasks: [charge]}
`))
	var fe *FileError
	require.ErrorAs(t, err, &fe)
	var codes []Code
	var lines []int
	for _, f := range fe.Findings {
		codes = append(codes, f.Code)
		lines = append(lines, f.Place.Line)
		assert.NotEmpty(t, f.Mend)
		assert.Equal(t, fe.File, f.Place.File)
	}
	assert.Equal(t, []Code{BadNumber, BadRate, UnknownKey, BadCommand, NoTarget, BadRate, UnknownTask}, codes)
	assert.Equal(t, []int{2, 5, 6, 7, 8, 9, 11}, lines)
	assert.True(t, strings.HasPrefix(err.Error(), fe.File+": 7 faults\n"))

	// For a program: what the library said of the values.
	var rate *bucket.SyntaxError
	require.ErrorAs(t, err, &rate)
	assert.Equal(t, "100/mo", rate.Input)
	_, err = Parse("x", []byte("tasks: {\"a\\tb\": {elsewhere: true}}"))
	require.ErrorIs(t, err, queue.ErrInvalid)
}

func TestEveryRateThatIsNoneIsRefusedWhereverOneStands(t *testing.T) {
	t.Parallel()
	for _, rate := range []string{
		"100/M", "100/mo", "100/month", "100/ms", "100", "/m", "100/", "100//m", "100/m;5/h", "100/m x", "100per m", "１００/m", "", "100/m\n",
		"nan/s", "NaN/m", "inf/h", "+Inf/s", "1e400/s", "0/m", "-0/m", "0.0/m", "0.5/m", "-1/s", "1e3/s", "0x10/s", "1_000/s",
		"9007199254740993/s", "9223372036854775807/s", "18446744073709551616/s", "1/0s", "1/367d", "+1/s", "1.0000001/s", " ",
	} {
		for where, form := range map[string]string{
			"task":         "tasks: {t: {elsewhere: true, rate_limit: %s}}",
			"task mapping": "tasks: {t: {elsewhere: true, rate_limit: {rate: %s}}}",
			"task list":    "tasks: {t: {elsewhere: true, rate_limit: [1/d, %s]}}",
			"queue":        "queues: {q: {rate_limit: %s}}",
			"limit":        "limits: {l: {rate: %s, queues: [default]}}",
		} {
			lines := faults(t, fmt.Sprintf(form, fmt.Sprintf("%q", rate)))
			if assert.Len(t, lines, 1, "%s: %q", where, rate) {
				assert.Contains(t, lines[0], " "+string(BadRate)+" ")
				assert.Contains(t, lines[0], fmt.Sprintf("rate %q: ", rate))
			}
		}
	}
}

func TestWhatIsNotYAMLIsReportedWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"tasks: {\n", "a: b: c\n", "tasks:\n\tt: x\n", "a: [1, 2\n", "a: \"x\n", "- a\nb: c\n", "? [a]\n: b\n", "a: !foo b\n", "a: %\n", "a: 'x\n", "%YAML 9.9\n---\na\n",
	} {
		lines := faults(t, content)
		assert.NotEmpty(t, lines, "%q", content)
	}
	assert.Equal(t, "weir.yaml:2:1", strings.SplitN(faults(t, "tasks:\n\tt: x\n")[0], ": ", 2)[0])
}

func TestAFileThatIsTooMuchIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"large":        strings.Repeat("# nothing\n", 200_000),
		"many keys":    strings.Repeat("a:\n", 100_000),
		"deep":         strings.Repeat("[", 100_000),
		"deep on line": strings.Repeat("- ", 100_000),
		"anchors":      strings.Repeat("&a ", 100_000),
		"both":         strings.Repeat("a: &x [", 100_000),
		"tags":         strings.Repeat("!t ", 100_000),
		"merges":       strings.Repeat("<<: ", 100_000),
	} {
		lines := faults(t, content)
		if assert.Len(t, lines, 1, name) {
			assert.Contains(t, lines[0], string(TooBig), name)
		}
	}
}

func TestAFileThatCannotBeReadIsAFindingToo(t *testing.T) {
	t.Parallel()
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	var fe *FileError
	require.ErrorAs(t, err, &fe)
	require.Len(t, fe.Findings, 1)
	assert.Equal(t, Unreadable, fe.Findings[0].Code)
	assert.Contains(t, err.Error(), "none.yaml: W101 cannot read it: no such file or directory")
	require.ErrorIs(t, err, os.ErrNotExist)

	_, err = Load(t.TempDir())
	require.ErrorContains(t, err, "is a directory")
}

func TestAPasswordIsNotRepeatedInAMessage(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"mysql://root:hunter2@db/weir", "postgres:root:hunter2@db", "postgres://root:hunter2@db:port/x", "root:hunter2@tcp(db)/weir", "mysql://db/weir?password=hunter2"} {
		_, err := Parse("x", []byte("database: "+dsn+"\n"))
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "hunter2", dsn)
	}
}

func TestCodesAreNamedOnce(t *testing.T) {
	t.Parallel()
	seen := map[Code]bool{}
	for _, c := range []Code{
		Unreadable, BadYAML, TooBig, DuplicateKey, BadAlias, UnknownKey, WrongType, NotServed, MissingKey, BadRate, BadBurst, BadExcess,
		BadDefer, BadName, ReservedName, BadDuration, BadNumber, BadBackoff, BadDatabase, BadStrategy, BadCommand, NoTarget, SeveralTargets,
		BadMigrate, BadURL, BadHeader, UnknownTask, UnknownQueue, CoversNone, NarrowBurst, NoProgram, NoEffect, NamedTwice, IdleRate, NothingRuns, NoFolder, Ignored,
	} {
		assert.False(t, seen[c], "%s", c)
		seen[c] = true
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		example, second, "tasks: {t: {exec: {command: [a]}, rate_limit: {rate: 1/s, burst: 2}}}", "a: &x {<<: *x}", "a: &x [*x]\nb: *x", "? a\n: b", "- - - a",
		"%YAML 1.2\n---\na: b", "a: |\n  x\n  y\n", "a: >-\n  x", "\xef\xbb\xbfa: b", "!!str a: !!int 5", "<<: [{a: b}, {c: d}]", "a: 'x''y'", "a: \"\\x41\"",
		"a: !t", "a: &", "*", "&a", "{a, b}", "[a: b]", "a: b\r\n", "---\n...\n---\n", ": a", "? ", "a:\n- b\n-", windowed, "tasks: {? t : {}}", "\t", "a: @", "a: `",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		file, err := Parse("weir.yaml", data)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("%d bytes took %v", len(data), took)
		}
		var fe *FileError
		switch {
		case err == nil:
			_ = file.Warnings()
			_ = file.Options()
		case !errors.As(err, &fe) || len(fe.Findings) == 0:
			t.Fatalf("%q: %v", data, err)
		}
	})
}
