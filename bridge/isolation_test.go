package bridge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// toolsEach is how many tools, of 1 KB each, a server of the isolation test has.
const toolsEach = 300

// newBusy returns a server with many tools that return their name. While changing is set, its list differs at each
// reading.
func newBusy(changing *atomic.Bool, peer *atomic.Pointer[jsonrpc.Peer]) *fakeServer {
	var readings atomic.Int64
	return &fakeServer{era: client.Legacy, answer: func(_ context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		peer.Store(&from)
		switch req.Method {
		case mcp.MethodToolsList:
			generation := int64(0)
			if changing.Load() {
				generation = readings.Add(1)
			}
			tools := make([]string, toolsEach)
			for i := range tools {
				tools[i] = fmt.Sprintf(`{"name":"t%d","description":"%d %s"}`, i, generation, strings.Repeat("x", 1000))
			}
			return `{"tools":[` + strings.Join(tools, ",") + `]}`, nil
		case mcp.MethodToolsCall:
			return `{"content":[{"type":"text","text":` + string(req.Member("name")) + `}]}`, nil
		}
		return "", nil
	}}
}

// entriesExcept returns the tools of all servers except one.
func entriesExcept(b *bridge.Bridge, alias string) []*server.Entry {
	return slices.DeleteFunc(slices.Collect(b.Catalog().All(mcp.KindTool)), func(e *server.Entry) bool { return e.Origin.Server == alias })
}

// While one of eight servers is in trouble, the calls to the others are answered, their entries stay
// the same, and clients get few notifications.
func TestOneServerInTroubleDisturbsNoOther(t *testing.T) {
	const servers, trouble = 8, 700 * time.Millisecond
	for name, disturb := range map[string]func(ctx context.Context, victim *faultyDialer, changing *atomic.Bool, peer *atomic.Pointer[jsonrpc.Peer]){
		"killed": func(ctx context.Context, victim *faultyDialer, _ *atomic.Bool, _ *atomic.Pointer[jsonrpc.Peer]) {
			victim.refuse.Store(true)
			victim.cut()
			<-ctx.Done()
			victim.refuse.Store(false)
		},
		"stopped": func(ctx context.Context, victim *faultyDialer, _ *atomic.Bool, _ *atomic.Pointer[jsonrpc.Peer]) {
			victim.hang.Store(true)
			victim.cut()
			<-ctx.Done()
			victim.hang.Store(false)
		},
		"flapping": func(ctx context.Context, victim *faultyDialer, _ *atomic.Bool, _ *atomic.Pointer[jsonrpc.Peer]) {
			for ctx.Err() == nil {
				victim.cut()
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		},
		"flooding": func(ctx context.Context, _ *faultyDialer, changing *atomic.Bool, peer *atomic.Pointer[jsonrpc.Peer]) {
			changing.Store(true)
			for ctx.Err() == nil && peer.Load() != nil {
				for _, method := range []string{mcp.NotificationToolsListChanged, mcp.NotificationPromptsListChanged, mcp.NotificationMessage} {
					_ = (*peer.Load()).Notify(ctx, method, mcp.Raw(`{"level":"error","data":"`+strings.Repeat("x", 10_000)+`"}`)) // the connection may end
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var configs []bridge.Config
			var victim *faultyDialer
			var changing, never atomic.Bool
			var victimPeer, anyPeer atomic.Pointer[jsonrpc.Peer]
			for i := range servers {
				dialer, opts := dialerTo(newBusy(&never, &anyPeer)), bridge.ProxyOptions{}
				if i == 0 {
					dialer, opts.ConnectTimeout = dialerTo(newBusy(&changing, &victimPeer)), time.Second
					victim = dialer
				}
				configs = append(configs, bridge.Config{Alias: fmt.Sprintf("s%d", i), Dialer: dialer, ProxyOptions: opts})
			}
			b, err := bridge.New(&bridge.Options{Logger: quiet(), StartTimeout: time.Minute}, configs...)
			if err != nil {
				t.Fatal(err)
			}
			frontend := mount(t, b)
			var notified atomic.Int64
			session := connect(t, pipeTo(frontend), client.Options{Era: client.Legacy, OnChange: func(context.Context, mcp.Change) { notified.Add(1) }})
			before := entriesExcept(b, "s0")
			if len(before) != (servers-1)*toolsEach {
				t.Fatalf("there are %d tools", len(before))
			}

			ctx, cancel := context.WithTimeout(t.Context(), trouble)
			defer cancel()
			var running sync.WaitGroup
			running.Go(func() { disturb(ctx, victim, &changing, &victimPeer) })
			var calls atomic.Int64
			var slowest atomic.Int64
			for i := 1; i < servers; i++ {
				running.Go(func() {
					for ctx.Err() == nil {
						began := time.Now()
						tool := fmt.Sprintf("s%d__t%d", i, calls.Add(1)%toolsEach)
						got, err := client.CallAs[string](t.Context(), session, tool, nil, nil)
						if err != nil || !strings.HasSuffix(tool, "__"+got) {
							t.Errorf("%s: %q, %v", tool, got, err)
							return
						}
						slowest.Store(max(slowest.Load(), int64(time.Since(began))))
						<-time.After(time.Millisecond)
					}
				})
			}
			running.Wait()
			if after := entriesExcept(b, "s0"); !slices.Equal(before, after) {
				t.Error("the entries of the other servers have changed")
			}
			// The bridge reads changed lists after 0, 100, 300 and 700 ms.
			if n := notified.Load(); n > 8 {
				t.Errorf("the client was notified %d times", n)
			}
			t.Logf("%d calls, the slowest took %v, %d notifications", calls.Load(), time.Duration(slowest.Load()), notified.Load())

			// The server is offered as before when it is well again.
			changing.Store(false)
			deadline := time.Now().Add(20 * time.Second)
			for {
				_, err := client.CallAs[string](t.Context(), session, "s0__t1", nil, nil)
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the server is not called again: %v", err)
				}
				<-time.After(20 * time.Millisecond)
			}
		})
	}
}
