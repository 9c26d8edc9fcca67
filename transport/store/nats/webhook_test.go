package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	shared "github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// Two replicas deliver webhooks from one store: each subscription gets all events in order.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	const subscriptions, events = 10, 20
	var mu sync.Mutex
	got, done := map[string][]string{}, make(chan struct{})
	left := subscriptions * events
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] = append(got[r.URL.Path], r.Header.Get("Webhook-Id"))
		if left--; left == 0 {
			close(done)
		}
	}))
	defer web.Close()

	s := embedded(t, t.TempDir(), nil)
	var count atomic.Int64
	source := func(_ context.Context, _ *delivery.Subscription, position string) (batch delivery.Batch, err error) {
		at, err := strconv.ParseInt(position, 10, 64)
		for ; at < count.Load(); at++ {
			batch.Events = append(batch.Events, delivery.Event{ID: fmt.Sprint(at + 1), Body: json.RawMessage("{}"), Position: fmt.Sprint(at + 1)})
		}
		batch.Position = fmt.Sprint(at)
		return batch, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var replicas []delivery.Deliverer
	for range 2 {
		d, err := webhook.New(&webhook.Options{
			Store: s, Keys: [][]byte{make([]byte, 32)}, AllowLoopback: true,
			Verified: func(context.Context, string, string) bool { return true },
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := d.Run(ctx, source); err != nil {
				t.Error(err)
			}
		})
		replicas = append(replicas, d)
	}
	for i := range subscriptions {
		_, err := replicas[0].Subscribe(t.Context(), delivery.Request{
			Key:    delivery.Key{Principal: "alice", URL: fmt.Sprint(web.URL, "/", i), Event: "e"},
			Secret: shared.NewSecret().Text(),
			Start:  func(context.Context, string) (string, error) { return "0", nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range events {
		count.Add(1)
		if err := replicas[0].Wake(t.Context(), "e", nil); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	mu.Lock()
	defer mu.Unlock()
	for url, ids := range got {
		for i, id := range ids {
			if id != fmt.Sprint(i+1) {
				t.Errorf("%s got %v", url, ids)
				break
			}
		}
	}
}
