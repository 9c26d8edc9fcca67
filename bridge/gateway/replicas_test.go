package gateway_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A gatewayReplica is a gateway that shares its approvals with all replicas.
type gatewayReplica struct {
	*rig
	channel *channel.Channel
	pages   *httptest.Server // where the person connects
}

func newGatewayReplica(t *testing.T, shared store.Store, files *frontendtest.Upstream) *gatewayReplica {
	t.Helper()
	ch, err := channel.New(&channel.Options{Token: strings.Repeat("t", 20), Store: shared, ReconnectTimeout: time.Minute, Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	r := &gatewayReplica{&rig{files: files, token: frontendtest.TokenOne}, ch, httptest.NewServer(ch)}
	t.Cleanup(r.pages.Close)
	r.bridge = frontendtest.Bridge(t, frontendtest.To("files", files))
	r.serve(t, gateway.Options{CallTimeout: time.Minute}, guarded(asking(t, ch)))
	return r
}

// person connects a client whose user gets prompts.
func (r *gatewayReplica) person(t *testing.T) <-chan *approval.Prompt {
	t.Helper()
	prompts := make(chan *approval.Prompt, 10)
	c, err := channel.Dial(t.Context(), "ws"+strings.TrimPrefix(r.pages.URL, "http"), func(_ context.Context, p *approval.Prompt) { prompts <- p },
		&channel.ClientOptions{Token: r.channel.Token(), Once: true, Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return prompts
}

// An approval that is pending at one gateway is decided at another, also after the restart of both.
func TestReplicas(t *testing.T) {
	for handler, way := range ways {
		t.Run(handler, func(t *testing.T) {
			shared, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { shared.Close() })
			files := newUpstream()
			first, second := newGatewayReplica(t, shared, files), newGatewayReplica(t, shared, files)
			begin := func(r *gatewayReplica) <-chan reply {
				done := make(chan reply, 1)
				go func() { done <- r.post(t, way.path, way.body) }()
				return done
			}
			wantCalled := func(done <-chan reply, calls int32) {
				t.Helper()
				if got := <-done; got.status != 200 || !strings.Contains(got.body, `{ \"a\" : 1.0 }`) {
					t.Errorf("the answer is %d %s", got.status, got.body)
				}
				if n := files.Calls.Load(); n != calls {
					t.Errorf("%d calls were made, want %d", n, calls)
				}
			}
			person := second.person(t)
			done := begin(first)
			if err := waittest.Receive(t, "the question to the person", person).Accept(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantCalled(done, 1)

			left := begin(first)
			pending := waittest.Receive(t, "the question to the person", person)
			first.channel.Close()
			second.channel.Close()
			waittest.Receive(t, "the end of the call", left)
			first, second = newGatewayReplica(t, shared, files), newGatewayReplica(t, shared, files)
			again := waittest.Receive(t, "the first person", first.person(t))
			if again.ID != pending.ID {
				t.Errorf("the person is asked %s, want %s", again.ID, pending.ID)
			}
			if err := again.Accept(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantCalled(begin(second), 2)
		})
	}
}
