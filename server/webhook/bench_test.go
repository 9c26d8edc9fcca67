package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// BenchmarkDeliver delivers over TLS to this machine, to 100 subscriptions with one host. One
// operation is one delivery.
func BenchmarkDeliver(b *testing.B) {
	const subscriptions = 100
	var left atomic.Int64
	done := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if left.Add(-1) == 0 {
			close(done)
		}
	})
	base, opts := tlsServer(b, handler)
	opts.Store, opts.MaxPerPrincipal = newMemory(b), subscriptions
	opts.Verified = func(context.Context, string, string) bool { return true }
	d := newDeliverer(b, nil, opts)
	f := &feed{limit: 100}
	for i := range subscriptions {
		subscribe(b, d, request("alice", fmt.Sprint(base, "/", i)))
	}
	events := (b.N + subscriptions - 1) / subscriptions
	left.Store(int64(events * subscriptions))
	f.add(events)
	b.ResetTimer()
	stop := run(b, d, f.read)
	<-done
	b.StopTimer()
	stop()
}

var _ delivery.Deliverer = (delivery.Deliverer)(nil)
