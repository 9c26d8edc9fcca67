package interop

import (
	"context"
	"slices"
	"testing"
)

// A check is what every pair has to pass.
type check struct {
	name string
	// from is the first version that has what it takes, until the first that has
	// it no more; "" for all.
	from, until string
	run         func(ctx context.Context, t *testing.T, p pair)
}

func TestGuestsAtHosts(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.String(), func(t *testing.T) {
			for _, c := range slices.Concat(offers, calls, questions, changes, breaks) {
				if p.version < c.from || c.until != "" && p.version >= c.until {
					continue
				}
				if i := slices.IndexFunc(faults, func(f fault) bool { return f.concerns(p, c.name) }); i >= 0 && !*tryFaults {
					t.Logf("not checked: %s, since %s", c.name, faults[i].why)
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					c.run(ctx, t, p)
				})
			}
		})
	}
}

// pairs are those in which we take part.
func pairs() []pair {
	var list []pair
	for _, names := range [][2]string{
		{"dovetail", "dovetail"}, {"go-sdk", "dovetail"}, {"mcp-go", "dovetail"}, {"dovetail", "go-sdk"}, {"dovetail", "mcp-go"},
	} {
		for _, version := range legacy {
			list = append(list, pair{names[0], names[1], "streamable", version}, pair{names[0], names[1], "sse", version})
		}
		list = append(list, pair{names[0], names[1], "streamable", modern})
		if names[0] == "dovetail" {
			list = append(list, pair{names[0], names[1], "fallback", "2025-11-25"})
		}
	}
	return append(list, pair{"dovetail", "go-sdk json", "streamable", "2025-11-25"}, pair{"dovetail", "go-sdk json", "streamable", modern})
}

// A guest that is not told the version finds the newest that the host has.
func TestVersionIsFound(t *testing.T) {
	const old = "2025-11-25"
	for _, test := range []struct {
		guest, host, transport string
		want                   string
	}{
		{"dovetail", "dovetail", "streamable", modern},
		{"go-sdk", "dovetail", "streamable", modern},
		{"mcp-go", "dovetail", "streamable", modern},
		{"dovetail", "go-sdk", "streamable", old},
		{"dovetail", "go-sdk stateless", "streamable", modern},
		{"dovetail", "mcp-go", "streamable", modern},
		{"dovetail", "mcp-go of old", "streamable", old},
		{"dovetail", "dovetail", "sse", modern}, // which is of the legacy era, but carries any
		{"dovetail", "go-sdk", "sse", old},
		{"dovetail", "mcp-go", "sse", modern},
		{"dovetail", "dovetail", "fallback", old},
		{"dovetail", "go-sdk", "fallback", old},
		{"dovetail", "mcp-go", "fallback", old},
	} {
		p := pair{test.guest, test.host, test.transport, auto}
		t.Run(p.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s := open(ctx, t, p, nil)
			if got := s.guest.spoken(); got != test.want {
				t.Errorf("version %s, want %s", got, test.want)
			}
			if got := s.said(ctx, t, "echo", map[string]any{"text": "hello"}); got != "hello" {
				t.Errorf("it says %q", got)
			}
		})
	}
}
