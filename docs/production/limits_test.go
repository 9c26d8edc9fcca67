package production_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/peertext"
	sealed "github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/oauth"
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

// TestLimits compares the tables of the guides with the code, in both directions.
func TestLimits(t *testing.T) {
	shown := map[string]string{}
	for _, page := range []string{"../limits.md", "../production.md"} {
		maps.Copy(shown, tableRows(t, page))
	}
	values := limitValues(t)
	for name, value := range values {
		if shown[name] != value {
			t.Errorf("the guides show %q for %s, which has %s", shown[name], name, value)
		}
	}
	for name, value := range shown {
		if _, ok := values[name]; !ok {
			t.Errorf("no value of the code is compared with the row %s, which shows %s", name, value)
		}
	}
}

// TestLimitsOfSecurity compares the limits in SECURITY.md with the code.
func TestLimitsOfSecurity(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, measures, _ := strings.Cut(string(text), "\n## Measures\n")
	measures, _, _ = strings.Cut(measures, "\n## ")
	measures = strings.Join(strings.Fields(measures), " ")
	for _, part := range []string{
		fmt.Sprintf("need up to %d MiB more", (declared(t, "transport/store", "defaultMemoryBytes")+declared(t, "transport/streamable/internal/session", "ownLogBytes"))>>20),
		fmt.Sprintf("at most %d logins of a person in %d minutes", declared(t, "transport/oauth", "defaultMaxLogins"), oauth.LoginWindow/time.Minute),
		fmt.Sprintf("at most %d requests at a time on one connection", httptransport.NewServer(nil).HTTP2.MaxConcurrentStreams),
		fmt.Sprintf("do not take a server above %d MiB", declared(t, "internal/test/soak", "maxResident")>>20),
	} {
		if !strings.Contains(measures, part) {
			t.Errorf("SECURITY.md does not say %q", part)
		}
		measures = strings.Replace(measures, part, "", 1)
	}
	if other := regexp.MustCompile(`[0-9]+ ([KMG]iB|bytes|seconds|minutes|requests|logins)`).FindString(measures); other != "" {
		t.Errorf("SECURITY.md says %q, which is not compared with the code", other)
	}
}

// limitValues returns the rows of the guides, with the values that the code has.
func limitValues(t *testing.T) map[string]string {
	jsonrpcOptions := new(jsonrpc.Options).WithDefaults()
	web := httptransport.NewServer(nil)
	burst := size(peertext.BurstBytes)
	values := map[string]any{
		"streamable.ServeOptions.MaxStreams":                      web.HTTP2.MaxConcurrentStreams,
		"the header of an HTTP request (httptransport.NewServer)": fmt.Sprintf("%s, %d s", size(web.MaxHeaderBytes), web.ReadHeaderTimeout/time.Second),
		"minimum rate of a body or a WebSocket message": fmt.Sprintf("%s/s after %d s", size(declared(t, "internal/httpguard", "slowest")),
			declared(t, "internal/httpguard", "freeTime")/int64(time.Second)),
		"streamable.Options.KeepAlive":                           time.Duration(declared(t, "transport/streamable", "defaultKeepAlive")),
		"streamable.ServeOptions.Drain":                          fmt.Sprint(int(streamable.ServeOptions{}.Drain)),
		"streamable.ServeOptions.ShutdownTimeout":                time.Duration(declared(t, "transport/streamable", "defaultShutdownTimeout")),
		"streamable.SelectOptions.MaxServers":                    declared(t, "transport/streamable", "defaultMaxServers"),
		"streamable.SelectOptions.IdleTimeout":                   time.Duration(declared(t, "transport/streamable", "defaultServerIdle")),
		"servers of streamable.Select that are opened at a time": declared(t, "transport/streamable", "maxOpening"),
		"store.Limits.LogBytes":                                  size(declared(t, "transport/store", "defaultLogBytes")),
		"store.Limits.LogAge":                                    time.Duration(declared(t, "transport/store", "defaultLogAge")),
		"store.Limits.LogEntries":                                declared(t, "transport/store", "defaultLogEntries"),
		"store.Limits.Lease":                                     time.Duration(declared(t, "transport/store", "defaultLease")),
		"store.MemoryOptions.Bytes":                              size(declared(t, "transport/store", "defaultMemoryBytes")),
		"parameters of initialize":                               size(era.MaxHandshake),
		"parameters of subscriptions/listen":                     size(era.MaxListenParams),
		"a URI that is watched":                                  size(era.MaxWatchedURI),
		"subscriptions of a connection":                          era.MaxListens,
		"streams of events of a connection":                      era.MaxStreams,
		"resources watched by a connection":                      era.MaxSubscribed,
		"jsonrpc.Options.MaxInFlight":                            jsonrpcOptions.MaxInFlight,
		"jsonrpc.Options.MaxPending":                             jsonrpcOptions.MaxPending,
		"jsonrpc.Options.CallTimeout":                            jsonrpcOptions.CallTimeout,
		"jsonrpc.Options.Drain":                                  jsonrpcOptions.Drain,
		"jsonrpc.Options.Grace":                                  jsonrpcOptions.Grace,
		"messages of a batch":                                    declared(t, "jsonrpc", "maxBatch"),
		"long lines of stdio that are held":                      size(declared(t, "jsonrpc", "maxHeldLines")),
		"stdio.ServeOptions.MaxLine":                             size(declared(t, "jsonrpc", "defaultMaxLine")),
		"stdio.CommandOptions.Grace":                             time.Duration(declared(t, "transport/stdio", "defaultGrace")),
		"a line of a child's standard error":                     size(peertext.MaxLine),
		"a child's standard error": fmt.Sprintf("%d lines, %s, then %d lines and %s per second", peertext.BurstLines, burst,
			peertext.LinesPerSecond, size(peertext.BytesPerSecond)),
		"standard error in an stdio.ExitError": fmt.Sprintf("the last %s; %d bytes in its text", size(declared(t, "transport/stdio", "maxStderr")),
			declared(t, "transport/stdio", "maxErrorLine")),
		"server.Tool.Timeout":                 "none",
		"server.Options.ValidationMemory":     size(declared(t, "schema", "defaultMaxMemory")),
		"the work for a value":                declared(t, "schema", "defaultMaxWork"),
		"the defaults of a value":             size(declared(t, "schema", "maxDefaults")),
		"rounds of questions of a call":       era.MaxRounds,
		"an answer before 2026-07-28":         era.InputTimeout,
		"the sealed state of a call is valid": era.StateLifetime,
		"the sealed state of a call":          size(sealed.MaxToken),
		"server.Options.RetainedBytes":        size(declared(t, "server", "defaultRetained")),
		"server.Options.MaxTasks":             declared(t, "server", "defaultMaxTasks"),
		"functions of [blocking tools](blocking.md)": fmt.Sprintf("%d; %d of one client", declared(t, "server/internal/blocking", "MaxCalls"),
			declared(t, "server/internal/blocking", "MaxPerPrincipal")),
		"a question of a blocking tool":                                  era.InputTimeout + time.Minute,
		"the outcome of a blocking tool that has asked":                  time.Duration(declared(t, "server/internal/blocking", "KeptFor")),
		"approval.Options.MaxOpen":                                       declared(t, "approval", "defaultMaxOpen"),
		"approval.Options.MaxPerCaller":                                  declared(t, "approval", "defaultMaxPerCaller"),
		"webhook.Options.MaxSubscriptions":                               declared(t, "server/webhook", "defaultMax"),
		"webhook.Options.MaxPerPrincipal":                                declared(t, "server/webhook", "defaultPrincipal"),
		"webhook.Options.Deliveries":                                     declared(t, "server/webhook", "defaultDeliveries"),
		"subscriptions of one principal that are delivered to at a time": "half of `Deliveries`, rounded up",
		"webhook.Options.DeliveriesPerHost":                              declared(t, "server/webhook", "defaultPerHost"),
		"verifications for one principal":                                fmt.Sprintf("%d per minute", declared(t, "server/webhook", "principalVerifications")),
		"verifications of one host":                                      fmt.Sprintf("%d per minute, %d for one principal", declared(t, "server/webhook", "hostVerifications"), declared(t, "server/webhook", "sharedVerifications")),
		"hosts that are verified":                                        fmt.Sprintf("%d per minute", declared(t, "server/webhook", "maxVerifiedKeys")),
		"oauth.CodeFlow.Timeout":                                         time.Duration(declared(t, "transport/oauth", "defaultLoginTimeout")),
		"oauth.LoginWindow":                                              oauth.LoginWindow,
		"oauth.ProtectOptions.Grace":                                     time.Duration(declared(t, "transport/oauth", "defaultTokenGrace")),
	}
	for prefix, limits := range map[string]any{"transport": transport.Limits{}.WithDefaults(), "client": client.Limits{}.WithDefaults()} {
		for field, value := range reflect.ValueOf(limits).Fields() {
			switch name := prefix + ".Limits." + field.Name; {
			case field.Type == reflect.TypeFor[time.Duration]():
				values[name] = value.Interface()
			case strings.HasSuffix(field.Name, "Bytes") && value.Int() >= 1<<10:
				values[name] = size(value.Int())
			default:
				values[name] = value.Int()
			}
		}
	}
	shown := map[string]string{}
	for name, value := range values {
		shown[name] = fmt.Sprint(value)
		if d, ok := value.(time.Duration); ok {
			shown[name] = strings.NewReplacer("h0m0s", " h", "m0s", " min", "s", " s").Replace(d.String())
		}
	}
	return shown
}

// tableRows returns the first two cells of the rows of a page's tables whose second column is the default.
func tableRows(t *testing.T, page string) map[string]string {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	within := false
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			within = false
			continue
		}
		name, value := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		switch {
		case value == "default":
			within = true
		case within && !strings.HasPrefix(value, "---"):
			rows[strings.ReplaceAll(name, "`", "")] = value
		}
	}
	return rows
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
					spec := spec.(*ast.ValueSpec)
					at := slices.IndexFunc(spec.Names, func(n *ast.Ident) bool { return n.Name == name })
					if at < 0 || at >= len(spec.Values) {
						continue
					}
					if n, exact := constant.Int64Val(value(t, spec.Values[at])); exact {
						return n
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
