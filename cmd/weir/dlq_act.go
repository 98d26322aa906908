package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

func (a *app) dlqReplay() *cobra.Command {
	var s selection
	var rate string
	cmd := &cobra.Command{
		Use: "replay [ID...]", Short: "Make new jobs of dead letters",
		Long: `Makes new jobs of dead letters, named by their numbers, by their jobs' ids, or
by a filter with a kind or a task. What was shed is replayed only by id or by
--kind shed. Where a live job holds the unique key, the dead letter stays.

A replay may be stopped and made again, and others may make the same one at the
same time: each dead letter is replayed once. --rate spreads it.

  weir dlq replay --task send_email --text "no such host" --rate 20/s`,
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		filter, err := s.check(cmd, ids)
		if err != nil {
			return err
		}
		if filter.Kind == "" && len(ids) == 0 {
			filter.NotKind = dlq.Shed
		}
		opts, err := s.how(cmd, ids, rate)
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters := dlq.From(c)
			if err := a.ask(cmd, letters, &s, filter, ids, "replay"); err != nil {
				return err
			}
			if len(ids) > 0 {
				return a.replayIDs(cmd.Context(), letters, ids, s.dry)
			}
			return a.replayWhere(cmd.Context(), letters, filter, s.dry, opts)
		})
	}
	s.register(cmd)
	cmd.Flags().StringVar(&rate, "rate", "", "spread it evenly at a `RATE`, as in 20/s or 1000/h")
	return cmd
}

// how are the options of what a filter selects. Ids have none.
func (s *selection) how(cmd *cobra.Command, ids []string, rate string) (opts []dlq.ActOption, err error) {
	if cmd.Flags().Changed("rate") {
		if _, err := bucket.Parse(rate); err != nil {
			return nil, wrong(cmd, "--rate: %w", err)
		}
		opts = append(opts, dlq.Pace(rate))
	}
	if len(opts) > 0 && len(ids) > 0 {
		return nil, wrong(cmd, "--rate is for what a filter selects")
	}
	if s.dry {
		opts = append(opts, dlq.DryRun())
	}
	return opts, nil
}

func (a *app) replayIDs(ctx context.Context, letters *dlq.Letters, ids []string, dry bool) error {
	replay := letters.Replay
	if dry {
		replay = letters.WouldReplay
	}
	replayed, err := replay(ctx, ids...)
	if a.json && (err == nil || len(replayed) > 0) {
		return asUsage(errors.Join(err, a.document(list[dlq.Replayed]{Items: replayed})))
	}
	for _, r := range replayed {
		a.replayLine(r)
	}
	return asUsage(err)
}

func (a *app) replayLine(r dlq.Replayed) {
	switch {
	case r.Skipped != "":
		fmt.Fprintf(a.out, "%s skipped: %s\n", r.ID, r.Skipped)
	case r.NewID == "":
		fmt.Fprintf(a.out, "%s would be replayed\n", r.ID)
	default:
		fmt.Fprintf(a.out, "%s replayed as %s\n", r.ID, r.NewID)
	}
}

func (a *app) replayWhere(ctx context.Context, letters *dlq.Letters, f dlq.Filter, dry bool, opts []dlq.ActOption) error {
	var result dlq.ReplayResult
	err := a.stoppable(ctx, "replayed", opts, func(ctx context.Context, opts []dlq.ActOption) (err error) {
		result, err = letters.ReplayWhere(ctx, f, opts...)
		return err
	})
	if err != nil && result.Replayed+result.Skipped == 0 {
		return asUsage(err)
	}
	if a.json {
		return asUsage(errors.Join(err, a.document(result)))
	}
	for _, r := range result.FirstSkipped {
		a.replayLine(r)
	}
	done := "replayed"
	if dry {
		done = "would be replayed"
	}
	fmt.Fprintf(a.out, "%s %s, %d skipped\n", count(result.Replayed, "dead letter"), done, result.Skipped)
	if err == nil && f.NotKind == dlq.Shed {
		err = a.noteShed(ctx, letters, f)
	}
	return asUsage(err)
}

// noteShed tells of what the filter would select if it named its kind.
func (a *app) noteShed(ctx context.Context, letters *dlq.Letters, f dlq.Filter) error {
	f.Kind, f.NotKind = dlq.Shed, ""
	left, err := letters.Count(ctx, f)
	if err == nil && left.N > 0 {
		fmt.Fprintf(a.err, "weir: note: kind shed is left out, %s: add --kind shed to replay it\n", capped(left.N, left.Capped))
	}
	return err
}

func (a *app) dlqPurge() *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use: "purge [ID...]", Short: "Delete dead letters",
		Long: `Deletes dead letters, named by their numbers, by their jobs' ids, or by a filter
with a kind or a task. They cannot be brought back: see dlq export.

  weir dlq purge --kind shed --older-than 24h`,
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		filter, err := s.check(cmd, ids)
		if err != nil {
			return err
		}
		opts, err := s.how(cmd, ids, "")
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters := dlq.From(c)
			if err := a.ask(cmd, letters, &s, filter, ids, "delete"); err != nil {
				return err
			}
			var purged int64
			if len(ids) > 0 {
				purge := letters.Purge
				if s.dry {
					purge = letters.WouldPurge
				}
				purged, err = purge(cmd.Context(), ids...)
			} else {
				err = a.stoppable(cmd.Context(), "deleted", opts, func(ctx context.Context, opts []dlq.ActOption) (err error) {
					purged, err = letters.PurgeWhere(ctx, filter, opts...)
					return err
				})
			}
			return a.purged(purged, s.dry, err)
		})
	}
	s.register(cmd)
	return cmd
}

func (a *app) purged(n int64, dry bool, err error) error {
	done := "deleted"
	if dry {
		done = "would be deleted"
	}
	switch {
	case err != nil && n == 0:
	case a.json:
		err = errors.Join(err, a.document(struct {
			Purged int64 `json:"purged"`
		}{n}))
	default:
		fmt.Fprintf(a.out, "%s %s\n", count(n, "dead letter"), done)
	}
	return asUsage(err)
}

var errInterrupted = errors.New("interrupted: make the same call again to go on with the rest")

// stoppable runs what may take long: a signal ends it after the transaction
// that is under way, and at a terminal it shows how far it is.
func (a *app) stoppable(ctx context.Context, done string, opts []dlq.ActOption, do func(context.Context, []dlq.ActOption) error) error {
	signals, release := a.signals()
	defer release()
	ctx, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		select {
		case <-signals:
			stop(errInterrupted)
		case <-ctx.Done():
		}
	})
	screen := &console{out: a.err}
	if a.errTerminal {
		opts = append(opts, dlq.Progress(func(n int64) { screen.show(fmt.Sprintf("%d %s", n, done)) }))
	}
	err := do(ctx, opts)
	stop(nil)
	beside.Wait()
	screen.settle()
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}
