package otelmcp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/mcp/otelmcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
)

type nameIn struct{ Name string }

// newShop is a server with entries that end in every way.
func newShop(opts *server.Options) *server.Server {
	opts.Guards = append(opts.Guards,
		mcp.Guard{Name: "closed", Check: func(_ context.Context, call *mcp.Call) error {
			if call.Target().Name == "refused" {
				return errors.New("no")
			}
			return nil
		}},
		mcp.Guard{Name: "hidden", Visible: func(_ context.Context, _ *mcp.Caller, t *mcp.Target) bool { return t.Name != "hidden" }})
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, opts)
	add := func(name string, fn func(ctx context.Context, r *server.Request) (any, error)) {
		server.AddTool(s, server.Tool{Name: name}, func(ctx context.Context, r *server.Request, _ struct{}) (any, error) { return fn(ctx, r) })
	}
	ok := func(context.Context, *server.Request) (any, error) { return "done", nil }
	add("greet", ok)
	add("refused", ok)
	add("hidden", ok)
	add("fails", func(context.Context, *server.Request) (any, error) { return nil, errors.New("secret of the function") })
	add("failed", func(context.Context, *server.Request) (any, error) { return &mcp.CallToolResult{IsError: true}, nil })
	add("busy", func(context.Context, *server.Request) (any, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.Busy, Message: "too much to do"}
	})
	add("panics", func(context.Context, *server.Request) (any, error) { panic("secret of the panic") })
	add("asks", func(_ context.Context, r *server.Request) (any, error) {
		in, err := server.Elicit[nameIn](r, "name", "Who are you?")
		return in.Name, err
	})
	server.AddPrompt(s, server.Prompt{Name: "letter"}, func(context.Context, *server.Request, nameIn) (string, error) { return "Dear", nil })
	server.AddResource(s, server.Resource{URI: "shop://price"}, func(context.Context, *server.Request) (string, error) { return "3", nil })
	return s
}

// TestOperations checks the spans and measurements of both sides, in every mode.
func TestOperations(t *testing.T) {
	for _, test := range []struct {
		name             string
		call             func(ctx context.Context, s *client.Session) error
		span             string // name on the server
		serving, calling string // status, message and attributes on each side, without the attributes that all calls have
	}{
		{
			name:    "success",
			call:    callTool("greet"),
			span:    "tools/call greet",
			serving: "Unset", calling: "Unset",
		},
		{
			name:    "error of a function",
			call:    callTool("fails"),
			span:    "tools/call fails",
			serving: "Error error.type=tool_error", calling: "Error error.type=tool_error",
		},
		{
			name:    "failed result",
			call:    callTool("failed"),
			span:    "tools/call failed",
			serving: "Error error.type=tool_error", calling: "Error error.type=tool_error",
		},
		{
			name:    "protocol error",
			call:    callTool("busy"),
			span:    "tools/call busy",
			serving: "Error too much to do error.type=429 rpc.response.status_code=429", calling: "Error too much to do error.type=429 rpc.response.status_code=429",
		},
		{
			name:    "refused by a guard",
			call:    callTool("refused"),
			span:    "tools/call refused",
			serving: "Error error.type=-32603 rpc.response.status_code=-32603", calling: "Error Guard 'closed' denied the tool call for 'refused' error.type=-32603 rpc.response.status_code=-32603",
		},
		{
			name:    "hidden by a guard",
			call:    callTool("hidden"),
			span:    "tools/call hidden",
			serving: "Unset rpc.response.status_code=-32602", calling: `Error unknown tool: "hidden" error.type=-32602 rpc.response.status_code=-32602`,
		},
		{
			name:    "panic",
			call:    callTool("panics"),
			span:    "tools/call panics",
			serving: "Error error.type=-32603 rpc.response.status_code=-32603", calling: "Error internal error, reference REF error.type=-32603 rpc.response.status_code=-32603",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
				c := newCollector(attribute.String("network.transport", "tcp"))
				session := servertest.Connect(t, newShop(c.observe(&server.Options{})), &servertest.Options{Mode: mode, Client: *c.observeClient(&client.Options{})})
				_ = test.call(t.Context(), session) // the error is what the spans tell
				tool := strings.TrimPrefix(test.span, "tools/call ")
				common := fmt.Sprintf("gen_ai.operation.name=execute_tool gen_ai.tool.name=%s mcp.method.name=tools/call mcp.protocol.version=%s network.transport=tcp", tool, session.Version())
				for _, side := range []struct {
					kind   trace.SpanKind
					metric string
					want   string
				}{
					{trace.SpanKindServer, "mcp.server.operation.duration", test.serving},
					{trace.SpanKindClient, "mcp.client.operation.duration", test.calling},
				} {
					span := c.one(t, side.kind, test.span)
					attrs := slices.DeleteFunc(span.Attributes(), func(a attribute.KeyValue) bool { return a.Key == "jsonrpc.request.id" })
					if side.kind == trace.SpanKindServer && len(attrs) == len(span.Attributes()) {
						t.Error("the server does not report the id of the request")
					}
					status, outcome := split(side.want)
					got := strings.TrimSpace(span.Status().Code.String() + " " + hideReference(span.Status().Description))
					if got != status {
						t.Errorf("%s: the status is %q, want %q", side.metric, got, status)
					}
					want := sorted(common + " " + outcome)
					if got := texts(attrs); got != want {
						t.Errorf("%v: the attributes are\n%s\nwant\n%s", side.kind, got, want)
					}
					if points := c.points(t, side.metric); !slices.Contains(points, want+": 1") {
						t.Errorf("%s: %q, want\n%s: 1", side.metric, points, want)
					}
				}
			})
		})
	}
}

func callTool(name string) func(context.Context, *client.Session) error {
	return func(ctx context.Context, s *client.Session) error {
		_, err := s.CallTool(ctx, name, nil, nil)
		return err
	}
}

// split splits a wanted outcome into status with message and attributes.
func split(want string) (status, attrs string) {
	for i, word := range strings.Fields(want) {
		if strings.Contains(word, "=") {
			return strings.Join(strings.Fields(want)[:i], " "), strings.Join(strings.Fields(want)[i:], " ")
		}
	}
	return want, ""
}

func sorted(attrs string) string {
	words := strings.Fields(attrs)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// hideReference replaces the random reference in the message of an internal error.
func hideReference(message string) string {
	if before, _, ok := strings.Cut(message, "reference "); ok {
		return before + "reference REF"
	}
	return message
}

// TestOtherMethods checks what spans and measurements have for requests that are no calls of tools.
func TestOtherMethods(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		c := newCollector()
		session := servertest.Connect(t, newShop(c.observe(&server.Options{})), &servertest.Options{Mode: mode, Client: *c.observeClient(&client.Options{})})
		ctx := t.Context()
		if _, err := session.GetPrompt(ctx, "letter", map[string]string{"Name": "Ann"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := session.ReadResource(ctx, "shop://price", nil); err != nil {
			t.Fatal(err)
		}
		for range session.Tools(ctx, nil) {
		}
		_, unknownTool := session.CallTool(ctx, "invented", nil, nil)
		_, unknownMethod := session.Call(ctx, "invented/method", nil, nil)
		if unknownTool == nil || unknownMethod == nil {
			t.Fatal("the server knows an invented name")
		}
		version := "mcp.protocol.version=" + string(session.Version())
		for name, want := range map[string]string{
			"prompts/get letter":  "gen_ai.prompt.name=letter mcp.method.name=prompts/get " + version,
			"resources/read":      "mcp.method.name=resources/read " + version,
			"tools/list":          "mcp.method.name=tools/list " + version,
			"tools/call":          "gen_ai.operation.name=execute_tool mcp.method.name=tools/call " + version + " rpc.response.status_code=-32602",
			"_OTHER":              "mcp.method.name=_OTHER " + version + " rpc.response.status_code=-32601",
			"client/tools/call":   "error.type=-32602 gen_ai.operation.name=execute_tool gen_ai.tool.name=invented mcp.method.name=tools/call " + version + " rpc.response.status_code=-32602",
			"client/resources":    "mcp.method.name=resources/read " + version,
			"client/other method": "error.type=-32601 mcp.method.name=invented/method " + version + " rpc.response.status_code=-32601",
		} {
			metric := "mcp.server.operation.duration"
			if strings.HasPrefix(name, "client/") {
				metric = "mcp.client.operation.duration"
			} else {
				c.one(t, trace.SpanKindServer, name)
			}
			if points := c.points(t, metric); !slices.Contains(points, want+": 1") {
				t.Errorf("%s: %q, want\n%s: 1", name, points, want)
			}
		}
		c.one(t, trace.SpanKindClient, "tools/call invented")
		for _, kind := range []trace.SpanKind{trace.SpanKindServer, trace.SpanKindClient} {
			if got := texts(c.one(t, kind, "resources/read").Attributes()); !strings.Contains(got, "mcp.resource.uri=shop://price") {
				t.Errorf("the span of a resource has %s", got)
			}
		}
	})
}

// TestCodeOfVersion checks that a server reports the code that its client gets, which depends on the version.
func TestCodeOfVersion(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		c := newCollector()
		s := newShop(c.observe(&server.Options{}))
		server.AddTool(s, server.Tool{Name: "bake", Task: server.TaskRequired}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		session := servertest.Connect(t, s, &servertest.Options{Mode: mode, Client: client.Options{NoTasks: true}})
		refused, ok := errors.AsType[*jsonrpc.Error](callTool("bake")(t.Context(), session))
		if !ok {
			t.Fatal("a client without tasks is not refused")
		}
		want := fmt.Sprintf("rpc.response.status_code=%d", refused.Code)
		if got := texts(c.one(t, trace.SpanKindServer, "tools/call bake").Attributes()); !strings.Contains(got, want) {
			t.Errorf("the client got %v, and the span has %s", refused, got)
		}
	})
}

// TestQuestions checks that a call that asks is one span of the client, and one of the server for each
// run, without errors.
func TestQuestions(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		c := newCollector()
		opts := c.observeClient(&client.Options{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"Name":"Ann"}`)}, nil
		}})
		session := servertest.Connect(t, newShop(c.observe(&server.Options{})), &servertest.Options{Mode: mode, Client: *opts})
		if got, err := client.CallAs[string](t.Context(), session, "asks", nil, nil); err != nil || got != "Ann" {
			t.Fatalf("%q, %v", got, err)
		}
		calling := c.one(t, trace.SpanKindClient, "tools/call asks")
		runs := c.named(trace.SpanKindServer, "tools/call asks")
		if len(runs) != 2 {
			t.Errorf("%d spans of the server, want one for each run", len(runs))
		}
		for _, run := range runs {
			if !isChild(run, calling) || strings.Contains(text(run), "error") {
				t.Errorf("a run is %s, child: %v", text(run), isChild(run, calling))
			}
		}
		if strings.Contains(text(calling), "error") {
			t.Errorf("the call is %s", text(calling))
		}
	})
}

// TestFailuresOfClients checks the classes of errors that are not the server's.
func TestFailuresOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.New(mcp.Implementation{Name: "slow", Version: "1"}, nil)
		server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		c := newCollector()
		session, err := client.Connect(t.Context(), transport.Pipe(s), c.observeClient(&client.Options{CallTimeout: time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, timeout := session.CallTool(t.Context(), "wait", nil, nil)
		_, canceled := session.CallTool(cancelled, "wait", nil, nil)
		session.Close()
		_, closed := session.CallTool(t.Context(), "wait", nil, nil)
		if timeout == nil || canceled == nil || closed == nil {
			t.Fatal("a call succeeds")
		}
		points := strings.Join(c.points(t, "mcp.client.operation.duration"), "\n")
		for _, class := range []string{"timeout", "canceled", "closed"} {
			if !strings.Contains(points, "error.type="+class+" ") {
				t.Errorf("no error.type %s:\n%s", class, points)
			}
		}
		for _, p := range c.histogram(t, "mcp.client.operation.duration") {
			if class, _ := p.Attributes.Value("error.type"); class.AsString() == "timeout" && p.Sum != 1 {
				t.Errorf("the timeout of one second took %v", p.Sum)
			}
		}
	})
}

// TestSessions checks the durations of sessions.
func TestSessions(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		synctest.Test(t, func(t *testing.T) {
			c := newCollector()
			s := newShop(c.observe(&server.Options{}))
			session := servertest.Connect(t, s, &servertest.Options{Mode: mode, Client: *c.observeClient(&client.Options{})})
			version := session.Version()
			time.Sleep(time.Minute)
			session.Close()
			synctest.Wait()
			for _, name := range []string{"mcp.client.session.duration", "mcp.server.session.duration"} {
				points := c.histogram(t, name)
				if version.Modern() && name == "mcp.server.session.duration" {
					if len(points) != 0 {
						t.Errorf("%s: a stateless server has sessions", name)
					}
					continue
				}
				if len(points) != 1 || points[0].Count != 1 || points[0].Sum < 60 || texts(points[0].Attributes.ToSlice()) != "mcp.protocol.version="+string(version) {
					t.Errorf("%s: %+v", name, points)
				}
			}
		})
	})
}

// TestLostSession checks the class of the error of a session that was lost.
func TestLostSession(t *testing.T) {
	c := newCollector()
	telemetry := otelmcp.NewClient(&c.options)
	for _, reason := range []error{nil, fmt.Errorf("lost: %w", jsonrpc.ErrClosed), errors.New("unknown"), context.DeadlineExceeded, transport.ErrNotReached} {
		telemetry.OnSession(t.Context(), &mcp.Caller{Version: mcp.Version20251125})(reason)
	}
	want := []string{
		"error.type=_OTHER mcp.protocol.version=2025-11-25: 1", "error.type=closed mcp.protocol.version=2025-11-25: 1",
		"error.type=not_reached mcp.protocol.version=2025-11-25: 1", "error.type=timeout mcp.protocol.version=2025-11-25: 1",
		"mcp.protocol.version=2025-11-25: 1",
	}
	if got := c.points(t, "mcp.client.session.duration"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRawResults checks what counts as a failed result of another server.
func TestRawResults(t *testing.T) {
	for result, failed := range map[string]bool{
		`{"content":[]}`:                                                 false,
		`{"content":[],"isError":false}`:                                 false,
		`{"content":[],"isError":true}`:                                  true,
		`{"content":[],"\u0069s\u0045rror" : true}`:                      true,
		`{"content":[],"isError":"true"}`:                                false,
		`{"structuredContent":{"isError":true}}`:                         false,
		`{"content":[{"type":"text","text":"\"isError\":true \u00e9"}]}`: false,
	} {
		c := newCollector()
		call, _ := newCall(`{"name":"a"}`)
		handler := otelmcp.NewClient(&c.options).Middleware(func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(result), nil })
		if _, err := handler(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text(c.one(t, trace.SpanKindClient, "tools/call a")), "error.type=tool_error"); got != failed {
			t.Errorf("%s: failed is %v", result, got)
		}
	}
}
