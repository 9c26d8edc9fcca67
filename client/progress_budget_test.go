package client_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// stormSize is how many notifications of progress a call of the tool storm sends.
const stormSize = 1000

func newStorm() *server.Server {
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

// A lineDialer runs a server at the other end of two pipes, as a child process would.
type lineDialer struct{ server transport.Binder }

func (d lineDialer) Dial(_ context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() {
		_ = stdio.Serve(context.Background(), d.server, &stdio.ServeOptions{In: in, Out: out})
		out.Close()
	}()
	conn := jsonrpc.NewConn(jsonrpc.NewLines(fromServer, toServer, toServer, nil),
		func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, nil)
	go func() { _ = conn.Run(context.Background()) }()
	return conn, nil
}

// stormDialers reach servers with the tool storm.
func stormDialers() map[string]transport.Dialer {
	return map[string]transport.Dialer{"pipe": transport.Pipe(newStorm()), "lines": lineDialer{newStorm()}}
}

func callStorm(tb testing.TB, session *client.Session) {
	came := 0
	_, err := session.CallTool(context.Background(), "storm", nil, &client.CallOptions{
		Progress: func(*mcp.ProgressParams) { came++ },
	})
	if err != nil || came != stormSize {
		tb.Fatalf("%d notifications of progress came, want %d; error %v", came, stormSize, err)
	}
}

func BenchmarkProgress(b *testing.B) {
	for name, dialer := range stormDialers() {
		b.Run(name, func(b *testing.B) {
			session := connect(b, dialer, client.Options{Era: client.Legacy})
			b.ReportAllocs()
			for b.Loop() {
				callStorm(b, session)
			}
		})
	}
}

// A notification of progress costs both ends together what the callback gets, which
// may keep it.
func TestProgressBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const budget = 1.5
	for name, dialer := range stormDialers() {
		t.Run(name, func(t *testing.T) {
			session := connect(t, dialer, client.Options{Era: client.Legacy})
			allocs := testing.AllocsPerRun(20, func() { callStorm(t, session) }) / stormSize
			if allocs > budget {
				t.Errorf("%.2f allocations for each notification, want at most %.2f", allocs, budget)
			}
		})
	}
}

// What comes in few members is decoded in another way than what comes in more: the
// callback is not to notice.
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
