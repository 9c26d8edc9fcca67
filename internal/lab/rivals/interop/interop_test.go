package interop

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

// A check is a test for every pair.
type check struct {
	name string
	// from is the first version with the tested feature, until the first one without it; ""
	// means no limit.
	from, until string
	run         func(ctx context.Context, t *testing.T, p pair)
}

func TestClientsWithServers(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.String(), func(t *testing.T) {
			for _, c := range slices.Concat(entryChecks, calls, questions, changes, breaks) {
				if p.version < c.from || c.until != "" && p.version >= c.until {
					continue
				}
				if i := slices.IndexFunc(knownFailures, func(f knownFailure) bool { return f.matches(p, c.name) }); i >= 0 && !*runKnownFailures {
					t.Logf("skipped: %s: %s", c.name, knownFailures[i].reason)
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
					defer cancel()
					c.run(ctx, t, p)
				})
			}
		})
	}
}

// pairs returns the tested pairs.
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

// A client without a configured version uses the newest one of the server.
func TestVersionIsFound(t *testing.T) {
	const old = "2025-11-25"
	for _, test := range []struct {
		client, server, transport string
		want                      string
	}{
		{"dovetail", "dovetail", "streamable", modern},
		{"go-sdk", "dovetail", "streamable", modern},
		{"mcp-go", "dovetail", "streamable", modern},
		{"dovetail", "go-sdk", "streamable", old},
		{"dovetail", "go-sdk stateless", "streamable", modern},
		{"dovetail", "mcp-go", "streamable", modern},
		{"dovetail", "mcp-go legacy", "streamable", old},
		{"dovetail", "dovetail", "sse", modern}, // a legacy transport that carries every version
		{"dovetail", "go-sdk", "sse", old},
		{"dovetail", "mcp-go", "sse", modern},
		{"dovetail", "dovetail", "fallback", old},
		{"dovetail", "go-sdk", "fallback", old},
		{"dovetail", "mcp-go", "fallback", old},
	} {
		p := pair{test.client, test.server, test.transport, auto}
		t.Run(p.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
			defer cancel()
			s := open(ctx, t, p, nil)
			if got := s.client.spoken(); got != test.want {
				t.Errorf("version %s, want %s", got, test.want)
			}
			if got := s.callText(ctx, t, "echo", map[string]any{"text": "hello"}); got != "hello" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the SDKs log a lot
	leaktest.Main(m)
}
