package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// heading is the first cell of the table, where the rows begin for those who compare tables.
const heading = "| Case |"

// markdown returns the table, after a line with the date and the versions.
func (m *Matrix) markdown(ctx context.Context) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s: Dovetail of this revision, go-sdk %s, mcp-go %s.\n\n", dated, time.Now().UTC().Format(time.DateOnly),
		version("github.com/modelcontextprotocol/go-sdk"), version("github.com/mark3labs/mcp-go"))
	b.WriteString(heading + " What is sent | What a safe peer does |")
	for _, p := range m.libraries() {
		b.WriteString(" " + p.Name + " |")
	}
	b.WriteString(" Test |\n|---|---|---|" + strings.Repeat("---|", len(m.libraries())) + "---|\n")
	for _, c := range m.cases {
		fmt.Fprintf(&b, "| %s %s | %s | %s |", c.ID, c.Name, c.Sent, c.Expected)
		for _, p := range m.libraries() {
			verdict, err := m.verdict(ctx, c, p)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, " %s |", verdict)
		}
		fmt.Fprintf(&b, " `%s` |\n", c.Test())
	}
	return b.String(), nil
}

// dated is the beginning of the line with the date and the versions.
const dated = "Run on "

// version returns the version of a module in this program.
func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return dep.Version
			}
		}
	}
	return "of an unknown version"
}
