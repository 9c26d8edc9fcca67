package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// TestTimeoutCoversGuards checks that a guard that takes too long refuses.
func TestTimeoutCoversGuards(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
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
		s := newServer(&server.Options{Logger: discardLogger(), Guards: []mcp.Guard{{Name: "wait", Run: wait}}})
		server.AddTool(s, server.Tool{Name: "tool", Timeout: time.Second}, func(ctx context.Context, _ *server.Request, in xIn) (string, error) {
			if in.X == "" {
				return "in time", ctx.Err()
			}
			<-ctx.Done()
			return "", fmt.Errorf("waiting: %w", ctx.Err())
		})
		session := connectInMemory(t, s, &client.Options{Era: era})
		if result, err := session.CallTool(longer(t), "tool", jsonRaw(`{"x":""}`), nil); err != nil || textOf(result) != "in time" {
			t.Errorf("the tool says %+v, %v", result, err)
		}
		began := time.Now()
		result, err := session.CallTool(longer(t), "tool", jsonRaw(`{"x":"late"}`), nil)
		if err != nil || textOf(result) != `tool "tool" took longer than 1s` || time.Since(began) != time.Minute+time.Second {
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
		s := newServer(&server.Options{Logger: discardLogger(), Middleware: []mcp.Middleware{note("outer ")}, Guards: []mcp.Guard{guard}})
		server.AddTool(s, server.Tool{Name: "tool", Guards: []mcp.Guard{{Name: "g", Run: note("entry ")}}, CallMiddleware: []mcp.Middleware{note("inner")}},
			func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				return fmt.Sprint(ctx.Value(noteKey{})), nil
			})
		if got := textOf(call(t, connect(t, s, era), "tool", `{}`)); got != "outer entry inner" {
			t.Errorf("the function finds %q", got)
		}
	})
}

// TestGuardsKnowTheHTTPRequest checks that guards get the context values of HTTP middleware.
func TestGuardsKnowTheHTTPRequest(t *testing.T) {
	type doorKey struct{}
	s := newServer(&server.Options{Logger: discardLogger()})
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

// TestDeclaredCapabilities checks the default capabilities and Options.Capabilities.
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
		addEveryKind(s, options{}, func(*server.Request) error { return nil })
		if has := connect(t, s, era).Capabilities(); has.Tools == nil || !has.Tools.ListChanged || has.Prompts == nil || has.Resources == nil || !has.Resources.Subscribe || has.Completions == nil {
			t.Errorf("a server with everything declares %+v", has)
		}
		told := newServer(&server.Options{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{}}})
		addEveryKind(told, options{}, func(*server.Request) error { return nil })
		if has := connect(t, told, era).Capabilities(); has.Tools == nil || has.Tools.ListChanged || has.Prompts != nil || has.Logging != nil {
			t.Errorf("a server that is told what to declare declares %+v", has)
		}
	})
}

// newWaiter has a tool that waits until it is let go, by number, or its call ends.
func newWaiter() (s *server.Server, begun chan int, letGo []chan struct{}, ended chan int) {
	begun, ended, letGo = make(chan int, 10), make(chan int, 10), make([]chan struct{}, 5)
	for i := range letGo {
		letGo[i] = make(chan struct{})
	}
	s = newServer(nil)
	server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, in point) (int, error) {
		begun <- in.X
		defer func() { ended <- in.X }()
		select {
		case <-letGo[in.X]:
			return in.X, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	returns(s, "quick", "done")
	return s, begun, letGo, ended
}

// TestAnswersInAnyOrder: calls that are answered in another order than they came get
// their own answers, as calls one after another do.
func TestAnswersInAnyOrder(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, begun, letGo, ended := newWaiter()
		session := connect(t, s, era)
		var calls sync.WaitGroup
		for i := range letGo {
			calls.Go(func() {
				if got := textOf(call(t, session, "wait", fmt.Sprintf(`{"x":%d}`, i))); got != fmt.Sprint(i) {
					t.Errorf("call %d is answered with %s", i, got)
				}
			})
		}
		for range letGo {
			waittest.Receive(t, "the beginning of the call", begun)
		}
		for i, one := range slices.Backward(letGo) {
			close(one)
			if got := waittest.Receive(t, "the end of the call", ended); got != i {
				t.Errorf("call %d ends, want %d", got, i)
			}
		}
		calls.Wait()
		for i := range 10 {
			if got := textOf(call(t, session, "wait", fmt.Sprintf(`{"x":%d}`, i%5))); got != fmt.Sprint(i%5) {
				t.Errorf("call %d of those one after another is answered with %s", i, got)
			}
		}
	})
}

// TestSlowCallDoesNotBlockOthers: while a tool runs, the same connection carries other
// calls, lists and pings, and the cancellation of the call itself.
func TestSlowCallDoesNotBlockOthers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, begun, _, ended := newWaiter()
		session := connect(t, s, era)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, "wait", point{X: 1}, nil)
			failed <- err
		}()
		waittest.Receive(t, "the beginning of the call", begun)
		if got := textOf(call(t, session, "quick", `{}`)); got != "done" {
			t.Errorf("the quick tool says %q", got)
		}
		if names := toolNames(t, session); len(names) != 2 {
			t.Errorf("listed are %q", names)
		}
		if era == client.Legacy {
			if _, err := raw(t, session, mcp.MethodPing, `{}`); err != nil {
				t.Errorf("a ping is answered with %v", err)
			}
		}
		cancel()
		if err := waittest.Receive(t, "the end of the call", failed); err == nil {
			t.Error("the cancelled call succeeds")
		}
		if got := waittest.Receive(t, "the end of the call", ended); got != 1 {
			t.Errorf("call %d ends", got)
		}
	})
}

// TestLogLevelsAreSeparate: what one client wants to hear changes nothing for another.
func TestLogLevelsAreSeparate(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "log"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			log := r.Logger("")
			log.Debug("debug")
			log.Warn("warning")
			log.Error("error")
			return "", nil
		})
		heard := map[mcp.LoggingLevel]*trace{}
		sessions := map[mcp.LoggingLevel]*client.Session{}
		for _, level := range []mcp.LoggingLevel{mcp.LevelDebug, mcp.LevelError, mcp.LevelWarning} {
			tr := &trace{}
			heard[level] = tr
			sessions[level] = connectInMemory(t, s, &client.Options{Era: era, LogLevel: level, OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) {
				tr.step(string(m.Level))
			}})
		}
		for _, session := range sessions {
			call(t, session, "log", `{}`)
		}
		synctest.Wait()
		for level, want := range map[mcp.LoggingLevel]string{mcp.LevelDebug: "debug warning error", mcp.LevelWarning: "warning error", mcp.LevelError: "error"} {
			if got := strings.Join(heard[level].take(), " "); got != want {
				t.Errorf("the client that wants %s hears %q, want %q", level, got, want)
			}
		}
	})
}

// TestSubscriptionsAreSeparate: each session has its own, and one that ends, or is closed
// with its session, takes none of the others with it.
func TestSubscriptionsAreSeparate(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:r"}, "")
		var told [3]int
		var sessions [3]*client.Session
		var subscriptions [3]*client.Subscription
		for i := range sessions {
			sessions[i] = connectInMemory(t, s, &client.Options{Era: era, OnChange: func(context.Context, mcp.Change) { told[i]++ }})
			var err error
			if subscriptions[i], err = sessions[i].Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app:r"}}); err != nil {
				t.Fatal(err)
			}
		}
		wantTold := func(want [3]int) {
			t.Helper()
			s.ResourceUpdated("app:r")
			synctest.Wait()
			if told != want {
				t.Errorf("the clients are told %v times, want %v", told, want)
			}
		}
		wantTold([3]int{1, 1, 1})
		subscriptions[0].Close()
		synctest.Wait()
		wantTold([3]int{1, 2, 2})
		if err := sessions[1].Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantTold([3]int{1, 2, 3})
	})
}

// TestCallsAreSeparate: two clients whose calls have the same id can each cancel their own,
// and a slow call holds up no other on its connection.
func TestCallsAreSeparate(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "slow"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			select {
			case <-time.After(time.Hour):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		returns(s, "quick", "yes")
		first, second := connectInMemory(t, s, &client.Options{Era: era}), connectInMemory(t, s, &client.Options{Era: era})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := first.CallTool(ctx, "slow", nil, nil); ended <- err }()
		patient, stop := context.WithTimeout(t.Context(), 2*time.Hour)
		defer stop()
		done := make(chan string, 1)
		go func() {
			result, err := second.CallTool(patient, "slow", nil, nil)
			if err != nil {
				t.Error(err)
				result = &mcp.CallToolResult{}
			}
			done <- textOf(result)
		}()
		synctest.Wait()
		if got := textOf(call(t, first, "quick", `{}`)); got != "yes" {
			t.Errorf("beside a slow call the tool says %q", got)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call ends with %v", err)
		}
		if got := <-done; got != "done" {
			t.Errorf("the other call says %q", got)
		}
	})
}

// TestProgressTokenZero is a progress token like any other.
func TestProgressTokenZero(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "tool"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			return string(r.Meta(mcp.MetaProgressToken)), r.Progress(ctx, 1, 0, "")
		})
		d := newDispatcher(t, s, era, mcp.MethodToolsCall, "")
		listener := &listening{}
		meta := `"progressToken":0`
		if era == client.Modern {
			meta += "," + strings.TrimSuffix(strings.TrimPrefix(modernMeta, `,"_meta":{`), "}")
		}
		request, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tool","_meta":{` + meta + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		var reply jsonrpc.Reply
		if err := d.handler.Handle(t.Context(), listener, request.(*jsonrpc.Request), &reply); err != nil {
			t.Fatal(err)
		}
		want := []string{mcp.NotificationProgress + ` {"progressToken":0,"progress":1}`}
		if !slices.Equal(listener.told, want) || !strings.Contains(string(reply.Buf), `"text":"0"`) {
			t.Errorf("the caller is told %q, then %s", listener.told, reply.Buf)
		}
	})
}

// A listening is a peer that records messages.
type listening struct {
	nobody
	told []string
}

func (l *listening) Notify(_ context.Context, method string, params jsonrpc.Appender) error {
	encoded, err := params.AppendJSON(nil)
	l.told = append(l.told, fmt.Sprint(method, " ", string(encoded)))
	return err
}

// owned is a server whose links are all of one principal.
type owned struct {
	*server.Server
	principal string
}

func (o owned) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = o.principal
	return o.Server.Bind(link)
}

// TestUpdatesForOnePrincipal reach the subscribers of that principal only, also at
// servers that have mounted the server.
func TestUpdatesForOnePrincipal(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		child, middle, s := newServer(nil), newServer(nil), newServer(nil)
		reads(child, server.Resource{URI: "app:r"}, "")
		reads(s, server.Resource{URI: "app:own"}, "")
		for _, err := range []error{middle.Mount(child.Provider(), &server.MountOptions{Prefix: "c."}), s.Mount(middle.Provider(), &server.MountOptions{Prefix: "m."})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer s.Shutdown(context.Background())
		told := map[string]*trace{"ada": {}, "eve": {}, "": {}}
		for principal, changes := range told {
			session := connectBy(t, transport.Pipe(owned{s, principal}), &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) {
				changes.step(change.URI)
			}})
			if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app:r", "app:own"}}); err != nil {
				t.Fatal(err)
			}
		}
		wantTold := func(uri string, principals ...string) {
			t.Helper()
			synctest.Wait()
			for principal, changes := range told {
				var want []string
				if slices.Contains(principals, principal) {
					want = []string{uri}
				}
				if got := changes.take(); !slices.Equal(got, want) {
					t.Errorf("%q is told of %q, want %q", principal, got, want)
				}
			}
		}
		s.ResourceUpdatedFor("ada", "app:own")
		wantTold("app:own", "ada")
		child.ResourceUpdatedFor("eve", "app:r")
		wantTold("app:r", "eve")
		s.ResourceUpdatedFor("ada", "app:other")
		s.ResourceUpdatedFor("nobody", "app:own")
		wantTold("")
		for _, tell := range []func(){
			func() { child.ResourceUpdated("app:r") },
			func() { child.ResourceUpdatedFor("", "app:r") },
		} {
			tell()
			wantTold("app:r", "ada", "eve", "")
		}
	})
}

// TestOnSession checks that a session of the legacy era begins and ends once over each transport, and
// that the modern era has no sessions.
func TestOnSession(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var begun atomic.Int32
		ended := make(chan string, 8)
		s := newServer(&server.Options{Logger: discardLogger(), OnSession: func(_ context.Context, c *mcp.Caller) func(error) {
			name := fmt.Sprint(c.Info.Name, " ", begun.Add(1))
			return func(reason error) { ended <- fmt.Sprint(name, " ", reason) }
		}})
		var want []string
		for i := range 3 {
			session := connectWith(t, s, &client.Options{Era: era, Info: mcp.Implementation{Name: "caller", Version: "1"}})
			if err := session.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			session.Close()
			if era == client.Legacy {
				want = append(want, fmt.Sprintf("caller %d <nil>", i+1))
				if got := waittest.Receive(t, "the end of the call", ended); got != want[i] {
					t.Errorf("%s, want %s", got, want[i])
				}
			}
		}
		if int(begun.Load()) != len(want) || len(ended) != 0 {
			t.Errorf("%d sessions have begun, and %d more have ended; want %d", begun.Load(), len(ended), len(want))
		}
	})
}

// TestOnSessionAgain checks that another handshake on a connection ends the first session.
func TestOnSessionAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		s := newServer(&server.Options{Logger: discardLogger(), OnSession: func(context.Context, *mcp.Caller) func(error) {
			name := fmt.Sprint(len(events))
			events = append(events, "begin "+name)
			return func(error) { events = append(events, "end "+name) }
		}})
		session := connectInMemory(t, s, &client.Options{Era: client.Legacy})
		if _, err := raw(t, session, mcp.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}`); err != nil {
			t.Fatal(err)
		}
		session.Close()
		synctest.Wait()
		if want := []string{"begin 0", "end 0", "begin 2", "end 2"}; !slices.Equal(events, want) {
			t.Errorf("%q, want %q", events, want)
		}
	})
}
