package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// slow is a played server with a tool that takes its time, and reports progress every 5 s
// if it is asked to. It does one thing at a time: while it works it answers no pings.
func slow(era client.Era, takes time.Duration) *played {
	up := toolsOnly(era, "work")
	busy := make(chan struct{}, 1)
	up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		switch req.Method {
		case mcp.MethodToolsList:
			return `{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}`, nil
		case mcp.MethodPing:
			select {
			case busy <- struct{}{}:
				<-busy
				return "{}", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		case mcp.MethodToolsCall:
		default:
			return "", nil
		}
		busy <- struct{}{}
		defer func() { <-busy }()
		done := time.After(takes)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for i := 1; ; i++ {
			select {
			case <-done:
				return `{"content":[{"type":"text","text":"done"}]}`, nil
			case <-ctx.Done():
				return "", ctx.Err()
			case <-ticker.C:
				if token := req.Member("_meta", mcp.MetaProgressToken); token != nil {
					_ = from.Notify(ctx, mcp.NotificationProgress, jsonrpc.Raw(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, i)))
				}
			}
		}
	}
	return up
}

// throughBoth are the ways to a server through a proxy and through a bridge.
func throughBoth(t testing.TB, up func() *played, opts bridge.ProxyOptions) map[string]transport.Dialer {
	opts.Logger = quiet()
	b, err := bridge.New(&bridge.Options{Logger: quiet(), Name: func(_, name string) string { return name }},
		bridge.Config{Alias: "a", Dialer: pipeTo(up()), ProxyOptions: opts})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]transport.Dialer{
		"proxy":  pipeTo(mount(t, bridge.Proxy(pipeTo(up()), &opts))),
		"bridge": pipeTo(mount(t, b)),
	}
}

// A call may take as long as its caller waits while the server reports progress. One without
// progress ends at the timeout.
func TestProgressExtendsTheTimeout(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		for timeout, bound := range map[time.Duration]time.Duration{0: time.Minute, 20 * time.Second: 20 * time.Second} {
			for _, asked := range []client.Options{{}, {Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }}} {
				synctest.Test(t, func(t *testing.T) {
					for name, way := range throughBoth(t, func() *played { return slow(behind, 9*time.Minute) }, bridge.ProxyOptions{CallTimeout: timeout}) {
						asked.Era = caller
						session := connect(t, way, asked)
						ctx, cancel := context.WithTimeout(t.Context(), 11*time.Minute)
						defer cancel()
						told := 0
						within(t, 9*time.Minute, 9*time.Minute, func() {
							result, err := session.CallTool(ctx, "work", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { told++ }})
							if got := texts(t, result, err); got != "done" || told < 100 {
								t.Errorf("%s: the call gave %q after %d reports", name, got, told)
							}
						})
						within(t, bound, bound, func() {
							_, err := session.CallTool(ctx, "work", nil, nil)
							if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(failed.Data), "UPSTREAM_TIMEOUT") {
								t.Errorf("%s: a silent call ends with %v", name, err)
							}
						})
					}
				})
			}
		}
	})
}

// The deadline of a caller in the same process is that of the call, also at a server that is
// silent while it works.
func TestDeadlineIsInherited(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: pipeTo(slow(era, 9*time.Minute))})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				result, err := b.CallTool(ctx, "a__work", nil)
				if got := texts(t, result, err); got != "done" {
					t.Errorf("the call gave %q", got)
				}
				within(t, time.Minute, time.Minute, func() {
					_, err := b.CallTool(t.Context(), "a__work", nil)
					wantFailure(t, err, bridge.TimedOut, jsonrpc.MaybeExecuted)
				})
			})
		})
	}
}
