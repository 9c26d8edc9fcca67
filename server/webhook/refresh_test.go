package webhook_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// A client refreshes its subscription during a delivery, shortly before the subscription would end. The worker knows the
// earlier end only. The deliveries go on, whether that one is accepted or tried again after the earlier end.
func TestRefreshDuringDelivery(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		want   []string
	}{
		"accepted":    {http.StatusOK, []string{"evt_1", "evt_2"}},
		"tried again": {http.StatusInternalServerError, []string{"evt_1", "evt_1", "evt_2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, f := &endpoint{}, &feed{}
				var d delivery.Deliverer
				r := request("alice", callback)
				var received atomic.Bool
				e.handle = func(w http.ResponseWriter, _ posted) {
					if received.Swap(true) {
						return
					}
					sleep(2 * time.Second)
					subscribe(t, d, r)
					sleep(time.Second)
					w.WriteHeader(test.status)
				}
				d = newDeliverer(t, e, webhook.Options{
					Store: newMemory(t), DefaultTTL: 10 * time.Minute, MinTTL: time.Minute, RetryPause: time.Minute,
				})
				run(t, d, f.read)
				subscribe(t, d, r)
				synctest.Wait()
				sleep(9*time.Minute + 50*time.Second)
				f.add(1)
				wake(t, d)
				sleep(2 * time.Minute) // after the earlier end
				f.add(1)
				wake(t, d)
				sleep(2 * time.Minute)
				wantIDs(t, e, test.want...)
				if again := subscribe(t, d, r); again.Created {
					t.Errorf("the subscription has begun again: %+v", again)
				}
			})
		})
	}
}
