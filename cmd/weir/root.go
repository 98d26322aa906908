package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/internal/suggest"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Runs background jobs at the rates you write down",
		Long: `Weir runs background jobs at the rates you write down, and keeps what exceeds
them waiting in order, or dead-letters it with a reason.

  weir serve -c weir.yaml         run the file's tasks
  weir enqueue send_email --args '{"to": "ada@example.com"}'
  weir limits list                how full are the buckets
  weir dlq list                   what died, and why

Exit codes: 0 success, 1 refusal or failure, 2 wrong usage.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          a.oneOf,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if slices.Contains(a.files, "") {
			return wrong(cmd, "-c is empty: name a file, or leave it out")
		}
		return notEmpty(cmd, "database")
	}
	flags := root.PersistentFlags()
	flags.StringArrayVarP(&a.files, "config", "c", nil, "configuration `FILE` (check takes several)")
	flags.StringVar(&a.database, "database", "", "`DSN` of the database (default: the file's, then $WEIR_DATABASE, then sqlite:weir.db)")
	flags.BoolVar(&a.json, "json", false, "print JSON: one document, or one a line where it streams")
	root.AddCommand(
		a.serve(), a.check(), a.enqueue(),
		a.group("jobs", "Look at jobs, cancel them and bring them forward", a.jobsList(), a.jobsShow(), a.jobsCancel(), a.jobsRetry()),
		a.group("dlq", "Look at dead letters, replay, purge and export them", a.dlqList(), a.dlqShow(), a.dlqStats(), a.dlqReplay(), a.dlqPurge(),
			a.dlqExport()),
		a.group("limits", "Look at limits and their buckets, and change them", a.limitsList(), a.limitsShow(), a.limitsSet(), a.limitsUnset(),
			a.limitsPause(), a.limitsResume()),
		a.group("queues", "Look at queues, pause and resume them", a.queuesList(), a.queuesPause(), a.queuesResume()),
		a.group("schedules", "Look at schedules, run, pause and resume them", a.schedulesList(), a.schedulesRun(), a.schedulesPause(), a.schedulesResume()),
		a.group("tasks", "Look at tasks", a.tasksList()),
		a.group("migrate", "Look at the database's schema and strategy, and change them", a.migrateUp(), a.migrateDown(), a.migrateStatus(), a.migrateStrategy()),
		a.stats(), a.audit(), a.bench(), a.version(),
	)
	a.correctHelp(root)
	return root
}

// correctHelp makes help of what is no command a wrong usage.
func (a *app) correctHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Run, help.RunE = nil, func(_ *cobra.Command, words []string) error {
		about, rest, _ := root.Find(words)
		if len(rest) > 0 {
			return a.oneOf(about, rest)
		}
		return about.Help()
	}
}

// group is a family of commands, which does nothing by itself.
func (a *app) group(name, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: name, Short: short, Args: a.oneOf}
	g.RunE = func(cmd *cobra.Command, _ []string) error {
		return wrong(cmd, "name a command: %s", strings.Join(names(cmd), ", "))
	}
	g.AddCommand(commands...)
	return g
}

// oneOf refuses what is no command of a family.
func (a *app) oneOf(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := suggest.Nearest(args[0], names(cmd)); near != "" {
		return wrong(cmd, "unknown command %q: did you mean %q?", args[0], near)
	}
	if !cmd.HasAvailableSubCommands() {
		return wrong(cmd, "%q is one argument too many: it has no commands of its own", args[0])
	}
	return wrong(cmd, "unknown command %q: use one of %s", args[0], strings.Join(names(cmd), ", "))
}

func names(cmd *cobra.Command) []string {
	var out []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	return out
}
