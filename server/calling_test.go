package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// TestTimeoutCoversGuards: who takes too long to decide has refused.
func TestTimeoutCoversGuards(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		server.AddTool(s, server.Tool{Name: "tool", Timeout: time.Second, Guards: []mcp.Guard{{
			Name: "slow", Check: func(ctx context.Context, _ *mcp.Call) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}}}, nothing[struct{}])
		session := connectInMemory(t, s, &client.Options{Era: era})
		began := time.Now()
		if _, err := session.CallTool(t.Context(), "tool", nil, nil); !client.IsForbidden(err) || time.Since(began) != time.Second {
			t.Errorf("the call ends with %v after %v", err, time.Since(began))
		}
	})
}

// TestTimeoutDoesNotCountWaiting: the time that a guard waits for a person does not count.
func TestTimeoutDoesNotCountWaiting(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		wait := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				resume := deadline.Pause(ctx)
				<-time.After(time.Minute)
				resume()
				return next(ctx, call)
			}
		}
		s := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{{Name: "wait", Run: wait}}})
		server.AddTool(s, server.Tool{Name: "tool", Timeout: time.Second}, func(ctx context.Context, _ *server.Request, in xIn) (string, error) {
			if in.X == "" {
				return "in time", ctx.Err()
			}
			<-ctx.Done()
			return "", fmt.Errorf("waiting: %w", ctx.Err())
		})
		session := connectInMemory(t, s, &client.Options{Era: era})
		if result, err := session.CallTool(longer(t), "tool", jsonRaw(`{"x":""}`), nil); err != nil || texts(result) != "in time" {
			t.Errorf("the tool says %+v, %v", result, err)
		}
		began := time.Now()
		result, err := session.CallTool(longer(t), "tool", jsonRaw(`{"x":"late"}`), nil)
		if err != nil || texts(result) != `tool "tool" took longer than 1s` || time.Since(began) != time.Minute+time.Second {
			t.Errorf("after %v the tool says %+v, %v", time.Since(began), result, err)
		}
	})
}

// longer is a context that lasts longer than a call without a deadline.
func longer(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

type noteKey struct{}

// TestContextReachesFunctions: what an interceptor puts into the context, guards and
// functions of all kinds find there.
func TestContextReachesFunctions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		note := func(text string) mcp.Middleware {
			return func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					before, _ := ctx.Value(noteKey{}).(string)
					return next(context.WithValue(ctx, noteKey{}, before+text), call)
				}
			}
		}
		guard := mcp.Guard{Name: "look", Check: func(ctx context.Context, _ *mcp.Call) error {
			if ctx.Value(noteKey{}) != "outer " {
				return fmt.Errorf("the guard finds %v", ctx.Value(noteKey{}))
			}
			return nil
		}}
		s := newServer(&server.Options{Logger: quiet(), Middleware: []mcp.Middleware{note("outer ")}, Guards: []mcp.Guard{guard}})
		server.AddTool(s, server.Tool{Name: "tool", Guards: []mcp.Guard{{Name: "g", Run: note("entry ")}}, CallMiddleware: []mcp.Middleware{note("inner")}},
			func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				return fmt.Sprint(ctx.Value(noteKey{})), nil
			})
		if got := texts(call(t, connect(t, s, era), "tool", `{}`)); got != "outer entry inner" {
			t.Errorf("the function finds %q", got)
		}
	})
}

// TestGuardsKnowTheHTTPRequest: what stands around an HTTP handler says who calls, and
// may put what it likes of a request into its context: of each request, or of the one
// that opens the socket or the stream. Elsewhere there is none of it.
func TestGuardsKnowTheHTTPRequest(t *testing.T) {
	type doorKey struct{}
	s := newServer(&server.Options{Logger: quiet()})
	guarded := func(name string, check func(ctx context.Context, call *mcp.Call) error) {
		server.AddTool(s, server.Tool{Name: name, Guards: []mcp.Guard{{Name: name, Check: check}}}, nothing[struct{}])
	}
	guarded("staff", func(_ context.Context, call *mcp.Call) error {
		if call.Caller.Principal != "ada" {
			return fmt.Errorf("%q is not of the staff", call.Caller.Principal)
		}
		return nil
	})
	guarded("door", func(ctx context.Context, _ *mcp.Call) error {
		if door, _ := ctx.Value(doorKey{}).(string); door != "back" {
			return fmt.Errorf("through the door %q", door)
		}
		return nil
	})
	overHTTP, overWS, overSSE := streamable.Handler(s, nil), ws.Handler(s, nil), sse.Handler(s, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", overHTTP)
	mux.Handle("/ws", overWS)
	mux.Handle("/sse", overSSE)
	httpServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(transport.WithPrincipal(r.Context(), r.Header.Get("X-Name")), doorKey{}, r.Header.Get("X-Door"))
		mux.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer httpServer.Close()
	defer overHTTP.Close()
	defer overWS.Close()
	defer overSSE.Close()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for _, name := range []string{"ada", "eve"} {
			header := func(_ context.Context, header http.Header) error {
				header.Set("X-Name", name)
				header.Set("X-Door", map[string]string{"ada": "back", "eve": "front"}[name])
				return nil
			}
			wantAllowed := func(dialer transport.Dialer) {
				t.Helper()
				session := connectBy(t, dialer, &client.Options{Era: era})
				for _, tool := range []string{"staff", "door"} {
					_, err := session.CallTool(t.Context(), tool, nil, nil)
					if name == "ada" && err != nil || name != "ada" && !client.IsForbidden(err) {
						t.Errorf("%v: at %s, %s gets %v", era, tool, name, err)
					}
				}
			}
			wantAllowed(streamable.Dial(httpServer.URL+"/mcp", &streamable.DialOptions{Header: header}))
			wantAllowed(ws.Dial(httpServer.URL+"/ws", &ws.DialOptions{Header: header}))
			if era == client.Legacy { // HTTP+SSE is older than the other
				wantAllowed(sse.Dial(httpServer.URL+"/sse", &sse.DialOptions{Header: header}))
			}
		}
		session := connectInMemory(t, s, &client.Options{Era: era})
		for _, tool := range []string{"staff", "door"} {
			if _, err := session.CallTool(t.Context(), tool, nil, nil); !client.IsForbidden(err) {
				t.Errorf("%v: at %s, who comes without HTTP gets %v", era, tool, err)
			}
		}
	}
}

// TestDeclaredCapabilities: a server says what it has, or what it is told to say.
func TestDeclaredCapabilities(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		empty := connect(t, newServer(&server.Options{Instructions: "Bake first."}), era)
		if has := empty.Capabilities(); has.Tools != nil || has.Prompts != nil || has.Resources != nil || has.Completions != nil || has.Logging == nil {
			t.Errorf("a server without anything declares %+v", has)
		}
		if got := empty.Instructions(); got != "Bake first." {
			t.Errorf("the instructions are %q", got)
		}
		s := newServer(nil)
		addEveryKind(s, surround{}, func(*server.Request) error { return nil })
		if has := connect(t, s, era).Capabilities(); has.Tools == nil || !has.Tools.ListChanged || has.Prompts == nil || has.Resources == nil || !has.Resources.Subscribe || has.Completions == nil {
			t.Errorf("a server with everything declares %+v", has)
		}
		told := newServer(&server.Options{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{}}})
		addEveryKind(told, surround{}, func(*server.Request) error { return nil })
		if has := connect(t, told, era).Capabilities(); has.Tools == nil || has.Tools.ListChanged || has.Prompts != nil || has.Logging != nil {
			t.Errorf("a server that is told what to declare declares %+v", has)
		}
	})
}
