package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBudgetsNameTheLimitsAsTheDatabaseDoes(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(example))
	require.NoError(t, err)
	var names []string
	for _, b := range f.Budgets() {
		names = append(names, b.Name+" "+b.Limit.String()+" "+b.Hold.String())
	}
	assert.Equal(t, []string{
		"task:send_email 100/m 1s", "task:record sample 10/s burst 15 1s", "task:resize 5/30s burst 2 6s",
		"queue:emails 500/m 1s", "queue:bulk 6/m burst 1 10s", "stripe 100/m 1s", "all 1000/h burst 50 1s",
	}, names)
}

func TestEachRateOfAListIsALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(second))
	require.NoError(t, err)
	var names []string
	for _, b := range f.Budgets() {
		names = append(names, b.Name+" "+b.Limit.String()+" "+b.Hold.String())
	}
	assert.Equal(t, []string{
		"task@s:resize 5/s burst 10 200ms", "task@m:resize 100/m 600ms", "task@h:resize 1000/h 3.6s", "task@m:plain 100/m 1s", "queue:emails 500/m 1s",
	}, names)
}

func TestTheShareSaysWhatLatenessCosts(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte("queues: {plain: {rate_limit: 10/s}, roomy: {rate_limit: 10/s, burst: 12}}\n"))
	require.NoError(t, err)
	budgets := f.Budgets()
	assert.InDelta(t, 0.998, budgets[0].Share(2*time.Millisecond), 0.0005)
	assert.InDelta(t, 1, budgets[1].Share(2*time.Millisecond), 0)
}

func TestAFileAsAWholeIsLookedAtToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for content, want := range map[string][]string{
		"":                                {`weir.yaml: W206 no task runs here: add one, as in tasks: {hello: {exec: {command: ["./hello.sh"]}}}`},
		"tasks: {t: {elsewhere: true}}\n": {`weir.yaml: W206 no task runs here: add one, as in tasks: {hello: {exec: {command: ["./hello.sh"]}}}`},
		"tasks: {t: {exec: {command: [\"true\"]}}}\ndatabase: sqlite:none/weir.db\nlisten: 127.0.0.1:8377\n": {
			`weir.yaml:2:11: W207 database: there is no folder "` + dir + `/none": make it, as with mkdir -p`,
			`weir.yaml:3:9: W208 listen: listen "127.0.0.1:8377" is ignored: this version has no HTTP server: leave it out`,
		},
		"tasks: {t: {exec: {command: [\"true\"]}}}\ndatabase: sqlite:weir.db\n": nil,
	} {
		f, err := Parse(filepath.Join(dir, "weir.yaml"), []byte(content))
		require.NoError(t, err)
		var got []string
		for _, w := range f.Warnings() {
			got = append(got, strings.TrimPrefix(w.Error(), dir+"/"))
		}
		assert.Equal(t, want, got, "%s", content)
	}
}

func TestAWarningSaysWhatAFileHardlyMeans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain.sh"), []byte("#!/bin/sh\n"), 0o600))
	f, err := Parse(filepath.Join(dir, "weir.yaml"), []byte(`
tasks:
  a: {exec: {command: ["./none.sh"]}}
  b: {exec: {command: ["./plain.sh"]}}
  c: {exec: {command: [no-such-program-at-all]}}
  d: {exec: {command: ["true"], dir: nowhere}}
  e: {elsewhere: true, rate_limit: [1/s], timeout: 5s, concurrency: 5, breaker: {failures: 3}}
  f: {exec: {command: ["true"]}, rate_limit: {rate: 1000/s, burst: 5}}
  g: {exec: {command: ["true"]}, rate_limit: 1000/s}
  h: {exec: {command: ["true"]}, rate_limit: [5/s, 300/m, {rate: 10/h, burst: 1}]}
  i: {exec: {command: ["true"]}, rate_limit: [{rate: 1000/s, burst: 5}, {rate: 60000/m, burst: 5}]}
  j: {exec: {command: ["true"]}, rate_limit: [{rate: 5/s, burst: 100}, 299/m, 1000000000/d]}
  k: {elsewhere: true, on_excess: drop}
limits:
  stripe: {rate: 1/s, tasks: [e, f, e]}
`))
	require.NoError(t, err)
	var got []string
	for _, w := range f.Warnings() {
		w.Place.File = "weir.yaml"
		got = append(got, w.Error())
		assert.NotEmpty(t, w.Mend)
	}
	assert.Equal(t, []string{
		`weir.yaml:3:13: W202 tasks.a.exec: task "a": there is no program "` + dir + `/none.sh": make it, or correct the command: a path counts from the folder of the file`,
		`weir.yaml:4:13: W202 tasks.b.exec: task "b": "` + dir + `/plain.sh" cannot be executed: make it executable: chmod +x ` + dir + `/plain.sh`,
		`weir.yaml:5:13: W202 tasks.c.exec: task "c": no program "no-such-program-at-all" in PATH: install it, or write ./no-such-program-at-all for one beside the file`,
		`weir.yaml:6:13: W202 tasks.d.exec: task "d": there is no folder "` + dir + `/nowhere": make it, or correct dir`,
		`weir.yaml:7:3: W203 tasks.e: task "e" runs elsewhere: breaker, concurrency, rate_limit and timeout have no effect here: give them where the task runs`,
		`weir.yaml:8:53: W201 tasks.f.rate_limit.rate: limit "task:f": 1000/s burst 5 holds less than 20 ms worth of its rate, so that ordinary delays cost a good part of it: use a burst of 20 or more`,
		`weir.yaml:10:47: W205 tasks.h.rate_limit[0]: task "h": 5/s never refuses a job: 10/h burst 1 lets no more pass in any time: leave it out, or make it smaller`,
		`weir.yaml:10:52: W205 tasks.h.rate_limit[1]: task "h": 300/m never refuses a job: 5/s lets no more pass in any time: leave it out, or make it smaller`,
		`weir.yaml:11:54: W201 tasks.i.rate_limit[0].rate: limit "task@s:i": 1000/s burst 5 holds less than 20 ms worth of its rate, so that ordinary delays cost a good part of it: use a burst of 20 or more`,
		`weir.yaml:11:80: W201 tasks.i.rate_limit[1].rate: limit "task@m:i": 60000/m burst 5 holds less than 20 ms worth of its rate, so that ordinary delays cost a good part of it: use a burst of 20 or more`,
		`weir.yaml:11:80: W205 tasks.i.rate_limit[1].rate: task "i": 60000/m burst 5 never refuses a job: 1000/s burst 5 lets no more pass in any time: leave it out, or make it smaller`,
		`weir.yaml:12:79: W205 tasks.j.rate_limit[2]: task "j": 1000000000/d never refuses a job: 5/s burst 100 lets no more pass in any time: leave it out, or make it smaller`,
		`weir.yaml:13:3: W203 tasks.k: task "k" runs elsewhere: on_excess has no effect here: give it where the task runs`,
		`weir.yaml:15:3: W204 limits.stripe: limit "stripe" names "e" twice: a job counts once all the same: name it once`,
	}, got)
}
