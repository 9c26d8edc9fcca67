package production_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/store"
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

// TestLimits compares the tables of the guides with the constants of the code.
func TestLimits(t *testing.T) {
	var text []byte
	for _, page := range []string{"../limits.md", "../production.md"} {
		lines, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, lines...)
	}
	defaults := new(jsonrpc.Options).WithDefaults()
	checkClientLimits(t, string(text))
	for name, value := range map[string]any{
		"transport.Limits.MessageBytes":           size(transport.Limits{}.WithDefaults().MessageBytes),
		"transport.Limits.HeldBytes":              size(transport.Limits{}.WithDefaults().HeldBytes),
		"transport.Limits.Calls":                  transport.Limits{}.WithDefaults().Calls,
		"transport.Limits.CallsPerPrincipal":      transport.Limits{}.WithDefaults().CallsPerPrincipal,
		"transport.Limits.Sessions":               transport.Limits{}.WithDefaults().Sessions,
		"transport.Limits.SessionsPerPrincipal":   transport.Limits{}.WithDefaults().SessionsPerPrincipal,
		"transport.Limits.Subscriptions":          transport.Limits{}.WithDefaults().Subscriptions,
		"transport.Limits.SessionTTL":             transport.Limits{}.WithDefaults().SessionTTL,
		"transport.Limits.WriteTimeout":           transport.Limits{}.WithDefaults().WriteTimeout,
		"streamable.Options.KeepAlive":            streamable.DefaultKeepAlive,
		"parameters of initialize":                size(era.MaxHandshake),
		"parameters of subscriptions/listen":      size(era.MaxListenParams),
		"a URI that is watched":                   size(era.MaxWatchedURI),
		"store.Limits.LogBytes":                   size(store.DefaultLogBytes),
		"store.Limits.LogAge":                     store.DefaultLogAge,
		"store.Limits.LogEntries":                 store.DefaultLogEntries,
		"store.Limits.Lease":                      store.DefaultLease,
		"store.MemoryOptions.Bytes":               size(store.DefaultMemoryBytes),
		"streamable.ServeOptions.ShutdownTimeout": streamable.DefaultShutdownTimeout,
		"jsonrpc.Options.MaxInFlight":             defaults.MaxInFlight,
		"jsonrpc.Options.MaxPending":              defaults.MaxPending,
		"messages of a batch":                     64,
		"jsonrpc.Options.CallTimeout":             defaults.CallTimeout,
		"jsonrpc.Options.Drain":                   defaults.Drain,
		"jsonrpc.Options.Grace":                   defaults.Grace,
		"stdio.ServeOptions.MaxLine":              size(16 << 20),
		"stdio.CommandOptions.Grace":              stdio.DefaultGrace,
		"oauth.CodeFlow.Timeout":                  oauth.DefaultLoginTimeout,
		"oauth.ProtectOptions.Grace":              oauth.DefaultTokenGrace,
		"rounds of questions of a call":           era.MaxRounds,
		"an answer before 2026-07-28":             era.InputTimeout,
		"the sealed state of a call is valid":     era.StateLifetime,
		"the sealed state of a call":              size(token.MaxToken),
		"subscriptions of a connection":           era.MaxListens,
		"resources watched by a connection":       era.MaxSubscribed,
		"server.Options.ValidationMemory":         size(schema.DefaultMaxMemory),
		"schema.DefaultMaxWork":                   schema.DefaultMaxWork,
		"schema.MaxDefaults":                      size(schema.MaxDefaults),
	} {
		if d, ok := value.(time.Duration); ok {
			value = strings.NewReplacer("h0m0s", " h", "m0s", " min").Replace(d.String())
			if d < time.Minute {
				value = fmt.Sprintf("%d s", d/time.Second)
			}
		}
		if !hasRow(string(text), name, fmt.Sprint(value)) {
			t.Errorf("limits.md and production.md have no row for %s with %v", name, value)
		}
	}
}

// checkClientLimits compares all fields of client.Limits.
func checkClientLimits(t *testing.T, text string) {
	limits := reflect.ValueOf(client.Limits{}.WithDefaults())
	for field, value := range limits.Fields() {
		shown := fmt.Sprint(value.Int())
		if strings.HasSuffix(field.Name, "Bytes") && value.Int() >= 1<<10 {
			shown = size(value.Int()).String()
		}
		if !hasRow(text, "client.Limits."+field.Name, shown) {
			t.Errorf("limits.md has no row for client.Limits.%s with %s", field.Name, shown)
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
