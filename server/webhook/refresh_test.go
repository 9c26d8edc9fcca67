package webhook_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/server/webhook"
)

// A subscription is refreshed while a delivery is in progress, shortly before it would end. The worker, which knows the
// earlier end, must not end the progress.
func TestRefreshDuringDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		var d *webhook.Deliverer
		r := request("alice", callback)
		first := true
		e.handle = func(w http.ResponseWriter, _ delivery) {
			if first {
				first = false
				sleep(2 * time.Second)
				subscribe(t, d, r) // refresh
				sleep(time.Second)
			}
		}
		d = newDeliverer(t, e, webhook.Options{Store: newMemory(t), DefaultTTL: 10 * time.Minute, MinTTL: time.Minute})
		run(t, d, f.read)
		subscribe(t, d, r)
		synctest.Wait()
		sleep(9*time.Minute + 50*time.Second)
		f.add(1)
		wake(t, d)
		sleep(2 * time.Minute) // after the first end
		f.add(1)
		wake(t, d)
		sleep(time.Minute)
		wantIDs(t, e, "evt_1", "evt_2")
		again := subscribe(t, d, r)
		if again.Created {
			t.Errorf("the subscription has begun again: %+v", again)
		}
	})
}

// The delivery fails, so that it waits for the next attempt across the first end.
func TestRefreshDuringFailedDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		var d *webhook.Deliverer
		r := request("alice", callback)
		first := true
		e.handle = func(w http.ResponseWriter, _ delivery) {
			if first {
				first = false
				sleep(2 * time.Second)
				subscribe(t, d, r) // refresh
				sleep(time.Second)
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
		d = newDeliverer(t, e, webhook.Options{Store: newMemory(t), DefaultTTL: 10 * time.Minute, MinTTL: time.Minute, RetryPause: time.Minute})
		run(t, d, f.read)
		subscribe(t, d, r)
		synctest.Wait()
		sleep(9*time.Minute + 45*time.Second)
		f.add(1)
		wake(t, d)
		sleep(5 * time.Minute)
		wantIDs(t, e, "evt_1", "evt_1")
	})
}
