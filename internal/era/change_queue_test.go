package era_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// watchedCore is a core that counts who watches it.
type watchedCore struct {
	watches atomic.Int32
	began   func() // runs when a watch begins
}

func (*watchedCore) Describe() (*era.Description, error) {
	return &era.Description{Capabilities: mcp.ServerCapabilities{Resources: &mcp.ResourcesCapability{Subscribe: true, ListChanged: true}}}, nil
}

func (*watchedCore) Serve(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{}`), nil }
func (*watchedCore) Failed(_ string, err error) error                     { return err }
func (*watchedCore) Stopping() <-chan struct{}                            { return nil }

func (c *watchedCore) Watch(_ context.Context, _ *mcp.Call, filter mcp.SubscriptionFilter, _ func(mcp.Change)) (mcp.SubscriptionFilter, func(), error) {
	c.watches.Add(1)
	c.began()
	return filter, func() { c.watches.Add(-1) }, nil
}

// A session that ends while it subscribes leaves no watch behind.
func TestSubscribeWhileTheSessionEnds(t *testing.T) {
	for _, when := range []string{"before", "meanwhile"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				input, cancel := context.WithCancel(t.Context())
				core := &watchedCore{began: func() {}}
				h := era.NewServer(core, nil).Bind(transport.Link{Input: input, Go: func(fn func(context.Context)) { go fn(input) }})
				end := func() {
					cancel()
					h.(jsonrpc.Ender).Ended()
				}
				handle := func(method string, params jsonrpc.Raw) error {
					req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, []byte(params))
					if err != nil {
						t.Fatal(err)
					}
					return h.Handle(t.Context(), nil, req, new(jsonrpc.Reply))
				}
				if err := handle(mcp.MethodInitialize, jsonrpc.Raw(eratest.InitializeParams(mcp.Version20251125, "{}"))); err != nil {
					t.Fatal(err)
				}
				if when == "before" {
					end()
					synctest.Wait()
				} else {
					core.began = end
				}
				if err := handle(mcp.MethodResourcesSubscribe, jsonrpc.Raw(`{"uri":"file:///a"}`)); err != nil {
					t.Errorf("subscribing: %v", err)
				}
				synctest.Wait()
				if n := core.watches.Load(); n != 0 {
					t.Errorf("%d watches are left", n)
				}
			})
		})
	}
}
