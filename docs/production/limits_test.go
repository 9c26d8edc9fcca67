package production_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/seal"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// size is a number of bytes.
type size int

func (s size) String() string {
	if s >= 1<<20 {
		return fmt.Sprintf("%d MiB", s>>20)
	}
	return fmt.Sprintf("%d KiB", s>>10)
}

// TestLimits compares the tables of the guide with the constants of the code.
func TestLimits(t *testing.T) {
	text, err := os.ReadFile("../production.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"streamable.Options.MaxMessage":           size(streamable.DefaultMaxMessage),
		"streamable.Options.WriteTimeout":         streamable.DefaultWriteTimeout,
		"streamable.Options.KeepAlive":            streamable.DefaultKeepAlive,
		"streamable.Options.MaxListens":           streamable.DefaultMaxListens,
		"streamable.Options.MaxSessions":          streamable.DefaultMaxSessions,
		"streamable.Options.MaxPerPrincipal":      streamable.DefaultMaxPerPrincipal,
		"streamable.Options.SessionTTL":           streamable.DefaultSessionTTL,
		"streamable.MemoryLimits.Bytes":           size(streamable.DefaultEventBytes),
		"streamable.MemoryLimits.Age":             streamable.DefaultEventAge,
		"streamable.ServeOptions.ShutdownTimeout": streamable.DefaultShutdownTimeout,
		"jsonrpc.Options.MaxInFlight":             jsonrpc.DefaultMaxInFlight,
		"jsonrpc.Options.MaxPending":              jsonrpc.DefaultMaxPending,
		"jsonrpc.Options.MaxBatch":                jsonrpc.DefaultMaxBatch,
		"jsonrpc.Options.CallTimeout":             jsonrpc.DefaultCallTimeout,
		"jsonrpc.Options.Drain":                   jsonrpc.DefaultDrain,
		"jsonrpc.Options.Grace":                   jsonrpc.DefaultGrace,
		"stdio.ServeOptions.MaxLine":              size(jsonrpc.DefaultMaxLine),
		"stdio.CommandOptions.Grace":              stdio.DefaultGrace,
		"oauth.CodeFlow.Timeout":                  oauth.DefaultLoginTimeout,
		"oauth.ProtectOptions.Grace":              oauth.DefaultTokenGrace,
		"rounds of questions of a call":           era.MaxRounds,
		"an answer before 2026-07-28":             era.InputTimeout,
		"the sealed state of a call is valid":     era.StateLifetime,
		"the sealed state of a call":              size(seal.MaxToken),
		"subscriptions of a connection":           era.MaxListens,
		"resources watched by a connection":       era.MaxSubscribed,
	} {
		if d, ok := value.(time.Duration); ok {
			value = strings.NewReplacer("h0m0s", " h", "m0s", " min").Replace(d.String())
			if d < time.Minute {
				value = fmt.Sprintf("%d s", d/time.Second)
			}
		}
		if !hasRow(string(text), name, fmt.Sprint(value)) {
			t.Errorf("production.md has no row for %s with %v", name, value)
		}
	}
}

func hasRow(text, name, value string) bool {
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) > 3 && strings.Trim(cells[1], " `") == name && strings.TrimSpace(cells[2]) == value {
			return true
		}
	}
	return false
}
