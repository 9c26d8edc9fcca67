package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// A slow endpoint takes so long to confirm its URL that many subscriptions are being made at the same time.
type slow struct{ *endpoint }

func (s slow) RoundTrip(req *http.Request) (*http.Response, error) {
	<-time.After(20 * time.Millisecond)
	return s.endpoint.RoundTrip(req)
}

// A principal that subscribes at all replicas at the same moment gets as many subscriptions as MaxPerPrincipal, and
// as many again when they have ended. Another principal gets its own.
func TestLimitOfPrincipalAtTheSameMoment(t *testing.T) {
	const limit, attempts = 10, 200
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			shared := newMemory(t)
			all := make([]delivery.Deliverer, replicas)
			for i := range all {
				all[i] = newDeliverer(t, slow{&endpoint{}}, webhook.Options{Store: shared, MaxPerPrincipal: limit})
				run(t, all[i], (&feed{}).read)
			}
			for round := range 3 {
				var granted, refused atomic.Int64
				var mu sync.Mutex
				var held []delivery.Key
				var calls sync.WaitGroup
				begin := make(chan struct{})
				for i := range attempts {
					calls.Go(func() {
						<-begin
						r := request("alice", callback)
						r.Arguments = fmt.Appendf(nil, `{"n":%d}`, round*attempts+i)
						_, err := all[i%replicas].Subscribe(t.Context(), r)
						limited, ok := errors.AsType[*delivery.LimitError](err)
						switch {
						case err == nil:
							granted.Add(1)
							mu.Lock()
							held = append(held, r.Key)
							mu.Unlock()
						case ok && limited.Max == limit && limited.Limit == "subscriptions":
							refused.Add(1)
						default:
							t.Error(err)
						}
					})
				}
				close(begin)
				calls.Wait()
				if granted.Load() != limit || refused.Load() != attempts-limit {
					t.Errorf("round %d: %d were granted and %d refused, want %d and %d", round, granted.Load(), refused.Load(), limit, attempts-limit)
				}
				if _, err := all[0].Subscribe(t.Context(), request("bob", callback)); err != nil {
					t.Errorf("another principal: %v", err)
				}
				for i, key := range held {
					if err := all[i%replicas].Unsubscribe(t.Context(), key); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}
