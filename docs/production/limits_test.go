package production_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	sealed "github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
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
		"streamable.Options.KeepAlive":            time.Duration(declared(t, "transport/streamable", "defaultKeepAlive")),
		"parameters of initialize":                size(era.MaxHandshake),
		"parameters of subscriptions/listen":      size(era.MaxListenParams),
		"a URI that is watched":                   size(era.MaxWatchedURI),
		"store.Limits.LogBytes":                   size(declared(t, "transport/store", "defaultLogBytes")),
		"store.Limits.LogAge":                     time.Duration(declared(t, "transport/store", "defaultLogAge")),
		"store.Limits.LogEntries":                 declared(t, "transport/store", "defaultLogEntries"),
		"store.Limits.Lease":                      time.Duration(declared(t, "transport/store", "defaultLease")),
		"store.MemoryOptions.Bytes":               size(declared(t, "transport/store", "defaultMemoryBytes")),
		"streamable.ServeOptions.ShutdownTimeout": time.Duration(declared(t, "transport/streamable", "defaultShutdownTimeout")),
		"jsonrpc.Options.MaxInFlight":             defaults.MaxInFlight,
		"jsonrpc.Options.MaxPending":              defaults.MaxPending,
		"messages of a batch":                     64,
		"jsonrpc.Options.CallTimeout":             defaults.CallTimeout,
		"jsonrpc.Options.Drain":                   defaults.Drain,
		"jsonrpc.Options.Grace":                   defaults.Grace,
		"stdio.ServeOptions.MaxLine":              size(16 << 20),
		"stdio.CommandOptions.Grace":              time.Duration(declared(t, "transport/stdio", "defaultGrace")),
		"oauth.CodeFlow.Timeout":                  time.Duration(declared(t, "transport/oauth", "defaultLoginTimeout")),
		"oauth.ProtectOptions.Grace":              time.Duration(declared(t, "transport/oauth", "defaultTokenGrace")),
		"rounds of questions of a call":           era.MaxRounds,
		"an answer before 2026-07-28":             era.InputTimeout,
		"the sealed state of a call is valid":     era.StateLifetime,
		"the sealed state of a call":              size(sealed.MaxToken),
		"subscriptions of a connection":           era.MaxListens,
		"resources watched by a connection":       era.MaxSubscribed,
		"server.Options.ValidationMemory":         size(declared(t, "schema", "defaultMaxMemory")),
		"the work for a value":                    declared(t, "schema", "defaultMaxWork"),
		"the defaults of a value":                 size(declared(t, "schema", "maxDefaults")),
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

// declared returns the value of a constant in a folder of the module, which may be unexported.
func declared(t *testing.T, folder, name string) int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.CONST {
				for _, spec := range group.Specs {
					if spec := spec.(*ast.ValueSpec); spec.Names[0].Name == name && len(spec.Values) == 1 {
						if n, exact := constant.Int64Val(value(t, spec.Values[0])); exact {
							return n
						}
					}
				}
			}
		}
	}
	t.Fatalf("%s has no constant %s with a value", folder, name)
	return 0
}

// units are the durations of package time that constants use.
var units = map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// value computes an expression of numbers and units of time.
func value(t *testing.T, e ast.Expr) constant.Value {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.SelectorExpr:
		if unit, ok := units[e.Sel.Name]; ok {
			return constant.MakeInt64(int64(unit))
		}
	case *ast.BinaryExpr:
		x, y := value(t, e.X), value(t, e.Y)
		if e.Op != token.SHL {
			return constant.BinaryOp(x, e.Op, y)
		}
		if n, exact := constant.Uint64Val(y); exact {
			return constant.Shift(x, e.Op, uint(n))
		}
	}
	t.Fatalf("value does not compute a %T", e)
	return nil
}
