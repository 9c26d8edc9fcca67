package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

type stepsIn struct {
	Steps int `json:"steps"`
}

// newStepper is a server with a tool that reports its steps.
func newStepper() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "step"}, func(ctx context.Context, r *server.Request, in stepsIn) (int, error) {
		for i := range in.Steps {
			if err := r.Progress(ctx, float64(i+1), float64(in.Steps), fmt.Sprintf("step %d", i+1)); err != nil {
				return 0, err
			}
		}
		return in.Steps, nil
	})
	return s
}

func TestProgressInOrderBeforeTheResult(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, transporttests.Dialer(t, newStepper()), client.Options{Era: era})
		const steps = 500
		var want, got []string
		for i := range steps {
			want = append(want, fmt.Sprintf("%d/%d step %d", i+1, steps, i+1))
		}
		returned := false
		opts := &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
			if returned {
				t.Error("progress after the result")
			}
			got = append(got, fmt.Sprintf("%v/%v %s", p.Progress, *p.Total, p.Message))
		}}
		_, err := session.CallTool(t.Context(), "step", stepsIn{steps}, opts)
		returned = true
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSlowProgressDoesNotBlockOthers checks that a waiting callback delays its own call only.
func TestSlowProgressDoesNotBlockOthers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, transporttests.Dialer(t, newStepper()), client.Options{Era: era})
		inside, leave := make(chan struct{}), make(chan struct{})
		slow := make(chan error, 1)
		go func() {
			first := true
			_, err := session.CallTool(t.Context(), "step", stepsIn{200}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {
				if first {
					first = false
					close(inside)
					<-leave
				}
			}})
			slow <- err
		}()
		waittest.Receive(t, "the entry into the function", inside)
		nested := 0
		_, err := session.CallTool(t.Context(), "step", stepsIn{3}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {
			if _, err := session.CallTool(t.Context(), "step", stepsIn{1}, nil); err != nil {
				t.Error(err)
			}
			nested++
		}})
		if err != nil || nested != 3 {
			t.Errorf("%d calls from callbacks, error %v", nested, err)
		}
		close(leave)
		if err := waittest.Receive(t, "the slow call", slow); err != nil {
			t.Error(err)
		}
	})
}

// TestProgressOfOthers checks that each call gets its own progress only.
func TestProgressOfOthers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var held *jsonrpc.Request
		arrived := make(chan struct{})
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			if req.Method != mcp.MethodToolsCall {
				return nil
			}
			if held == nil { // the first waits for the second
				held = req
				close(arrived)
				return []string{}
			}
			progress := func(token string) string {
				return notification(mcp.NotificationProgress, `{"progressToken":`+token+`,"progress":1}`)
			}
			return []string{
				progress(`"unknown"`), progress(`99`), progress(`null`), progress(`{}`), notification(mcp.NotificationProgress, `{}`),
				progress(string(held.Member("_meta", "progressToken"))),
				notification(mcp.NotificationProgress, `{"progressToken":`+string(held.Member("_meta", "progressToken"))+`,"progress":"much"}`),
				result(req, `{"resultType":"complete","content":[]}`),
				result(held, `{"resultType":"complete","content":[]}`),
			}
		}), client.Options{Era: era})
		first, told := make(chan error, 1), 0
		go func() {
			_, err := session.CallTool(t.Context(), "x", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { told++ }})
			first <- err
		}()
		waittest.Receive(t, "the call at the server", arrived)
		forged := &client.CallOptions{Meta: mcp.Meta(`{"progressToken":1}`)}
		if _, err := session.CallTool(t.Context(), "x", nil, forged); err != nil {
			t.Error(err)
		}
		if err := waittest.Receive(t, "the end of the first call", first); err != nil || told != 1 {
			t.Errorf("the call was told %d times of its progress, want 1; error %v", told, err)
		}
	})
}

// stormSize is the number of progress notifications in a call of the tool storm.
const stormSize = 1000

func newProgressServer() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "storm"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range stormSize {
			if err := r.Progress(ctx, float64(i+1), stormSize, ""); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	return s
}

// A lineDialer runs a server at the other end of two pipes, like a child process.
type lineDialer struct{ server transport.Binder }

func (d lineDialer) Dial(_ context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		_ = stdio.Serve(context.Background(), d.server, &stdio.ServeOptions{In: in, Out: out})
		out.Close()
	}()
	conn := jsonrpc.NewConn(jsonrpc.NewLines(fromServer, toServer, toServer, 0),
		func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, nil)
	go func() { _ = conn.Run(context.Background()) }()
	return conn, nil
}

// progressDialers connect to servers with the tool storm.
func progressDialers() map[string]transport.Dialer {
	return map[string]transport.Dialer{"pipe": transport.Pipe(newProgressServer()), "lines": lineDialer{newProgressServer()}}
}

func callProgress(tb testing.TB, session *client.Session) {
	came := 0
	_, err := session.CallTool(context.Background(), "storm", nil, &client.CallOptions{
		Progress: func(*mcp.ProgressParams) { came++ },
	})
	if err != nil || came != stormSize {
		tb.Fatalf("%d notifications of progress came, want %d; error %v", came, stormSize, err)
	}
}

func BenchmarkProgress(b *testing.B) {
	for name, dialer := range progressDialers() {
		b.Run(name, func(b *testing.B) {
			session := connect(b, dialer, client.Options{Era: client.Legacy})
			b.ReportAllocs()
			for b.Loop() {
				callProgress(b, session)
			}
		})
	}
}

// TestProgressBudget checks that a notification allocates only what the callback gets.
func TestProgressBudget(t *testing.T) {
	racetest.Skip(t)
	const budget = 1.5
	for name, dialer := range progressDialers() {
		t.Run(name, func(t *testing.T) {
			session := connect(t, dialer, client.Options{Era: client.Legacy})
			allocs := testing.AllocsPerRun(20, func() { callProgress(t, session) }) / stormSize
			if allocs > budget {
				t.Errorf("%.2f allocations for each notification, want at most %.2f", allocs, budget)
			}
		})
	}
}

// TestProgressIsDecodedAlike checks that both decoders of progress give the same values.
func TestProgressIsDecodedAlike(t *testing.T) {
	said := []string{
		`"progress":1`, `"progress":-0`, `"progress":2.5e3,"total":10`, `"total":0,"progress":3`,
		`"progress":4,"message":"caf\u00e9 \ud83d\ude00 \"x\""`, `"progress":5,"message":""`,
		`"progress":6,"_meta":{"a":1}`, `"progress":7,"vendor":[1]`, `"progress":8,"total":9,"vendor":null`,
		`"pro\u0067ress":9`, `"progress":10,"total":null`, `"progress":11,"message":null`, `"total":12`, ``,
		`"progress":"13"`, `"progress":14,"total":"x"`, `"progress":15,"message":1`, `"progress":1e999`, `"progress":16,"total":[]`,
	}
	params := func(token json.RawMessage, members string) string {
		if members != "" {
			members = "," + members
		}
		return `{"progressToken":` + string(token) + members + `}`
	}
	var want, got []mcp.ProgressParams
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsCall {
			return nil
		}
		var frames []string
		for _, members := range said {
			text := params(req.Member("_meta", "progressToken"), members)
			var p mcp.ProgressParams
			if p.UnmarshalJSON([]byte(text)) == nil {
				want = append(want, p)
			}
			frames = append(frames, notification(mcp.NotificationProgress, text))
		}
		return append(frames, result(req, `{"content":[]}`))
	}), client.Options{Era: client.Legacy})
	if _, err := session.CallTool(t.Context(), "x", nil, &client.CallOptions{
		Progress: func(p *mcp.ProgressParams) { got = append(got, *p) },
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkCallTool(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		session := connect(b, transport.Pipe(newSampler()), client.Options{Era: era})
		arguments := map[string]string{"word": "oak"}
		call := func(ctx context.Context, b *testing.B) {
			if _, err := session.CallTool(ctx, "say", arguments, nil); err != nil {
				b.Error(err)
			}
		}
		b.Run("sequential", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b.Context(), b)
			}
		})
		b.Run("parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b.Context(), b)
				}
			})
		})
	})
}

func BenchmarkTools1000(b *testing.B) {
	s := newServer(nil)
	for i := range 1000 {
		server.AddTool(s, server.Tool{Name: fmt.Sprintf("tool-%d", i), Description: "One of many."},
			func(context.Context, *server.Request, sumIn) (string, error) { return "", nil })
	}
	eachEra(b, func(b *testing.B, era client.Era) {
		session := connect(b, transport.Pipe(s), client.Options{Era: era})
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range session.Tools(b.Context(), nil) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 1000 {
				b.Fatalf("%d tools", n)
			}
		}
	})
}
