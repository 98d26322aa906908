package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker: -ldflags "-X main.release=v1.2.3".
var release string

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the program's version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if a.json {
				return a.document(v)
			}
			fmt.Fprintf(a.out, "weir %s", v.Version)
			if v.Revision != "" {
				fmt.Fprintf(a.out, " (%s)", v.Revision)
			}
			fmt.Fprintf(a.out, " %s %s\n", v.Go, v.Platform)
			return nil
		},
	}
}

func readVersion() versionInfo {
	v := versionInfo{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok && v.Version == "" {
		v.Version = info.Main.Version
	}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value[:min(len(s.Value), 12)]
		}
	}
	return v
}
