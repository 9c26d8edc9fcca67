package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	shared "github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport/store"
)

const callback = "https://proxy.example.com/hooks/1"

func TestDeliversInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{limit: 2}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
		run(t, d, f.read)
		r := request("alice", callback)
		grant := subscribe(t, d, r)
		if !grant.Created || grant.Position != "0" || !strings.HasPrefix(grant.ID, "sub_") || grant.Status != nil {
			t.Errorf("the first grant is %+v", grant)
		}
		f.add(5)
		wake(t, d)
		synctest.Wait()
		wantIDs(t, e, "evt_1", "evt_2", "evt_3", "evt_4", "evt_5")

		secret, _ := shared.ParseSecret(r.Secret)
		for _, got := range e.deliveries() {
			if err := signature.Verify(got.header, secret, []byte(got.body)); err != nil {
				t.Errorf("%s: %v", got.id, err)
			}
			if id := got.header.Get(shared.SubscriptionHeader); id != grant.ID || got.url != callback {
				t.Errorf("%s was sent to %s for %s", got.id, got.url, id)
			}
		}
		again := subscribe(t, d, r)
		if again.Created || again.ID != grant.ID || again.Position != "5" || again.Status == nil || !again.Status.Active || again.Status.LastDeliveryAt == nil {
			t.Errorf("the refresh is %+v with status %+v", again, again.Status)
		}
		if e.challenges != 1 {
			t.Errorf("the URL was verified %d times", e.challenges)
		}
	})
}

func TestAttempts(t *testing.T) {
	for _, test := range []struct {
		name    string
		answer  func(n int, w http.ResponseWriter) // to the nth delivery of evt_1
		want    string                             // ids before evt_2
		atLeast time.Duration                      // until evt_2
		atMost  time.Duration
		reason  delivery.Reason
	}{
		{"accepted", func(int, http.ResponseWriter) {}, "evt_1", 0, 0, ""},
		{"accepted without content", func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, "evt_1", 0, 0, ""},
		{"gone", func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusGone) }, "evt_1", 0, 0, ""},
		{"too large", func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusRequestEntityTooLarge) }, "evt_1", 0, 0, ""},
		{"fails twice", func(n int, w http.ResponseWriter) {
			if n <= 2 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}, "evt_1 evt_1 evt_1", 15 * time.Second, 45 * time.Second, ""},
		{"fails", func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, strings.Repeat("evt_1 ", 5), 75 * time.Second, 225 * time.Second, ""},
		{"redirects", func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.example.com/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, strings.Repeat("evt_1 ", 5), 75 * time.Second, 225 * time.Second, ""},
		{"is busy", func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, "evt_1 evt_1", 120 * time.Second, 121 * time.Second, ""},
		{"is busy for too long", func(_ int, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "100000")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "evt_1", 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				e, f := &endpoint{}, &feed{}
				e.handle = func(w http.ResponseWriter, d posted) {
					if d.id == "evt_1" {
						n++
						test.answer(n, w)
					}
				}
				d := newDeliverer(t, e, webhook.Options{Store: newMemory(t), Attempts: 5})
				run(t, d, f.read)
				f.add(2)
				begin := time.Now()
				subscribe(t, d, request("alice", callback))
				sleep(10 * time.Minute)
				want := append(strings.Fields(test.want), "evt_2")
				wantIDs(t, e, want...)
				got := e.deliveries()
				took := got[len(got)-1].at.Sub(begin)
				if took < test.atLeast || took > test.atMost {
					t.Errorf("the next event was sent after %v, want %v to %v", took, test.atLeast, test.atMost)
				}
				signed := map[string]bool{}
				for _, attempt := range got {
					signed[attempt.header.Get(signature.HeaderSignature)] = true
				}
				if len(signed) != len(got) {
					t.Errorf("%d attempts have %d signatures", len(got), len(signed))
				}
			})
		})
	}
}

// A subscription is suspended when its endpoint accepts nothing for an hour, and goes on with the
// event that was pending when the client refreshes it.
func TestSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{handle: status(500)}, &feed{}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
		run(t, d, f.read)
		r := request("alice", callback)
		r.TTL = 24 * time.Hour
		subscribe(t, d, r)
		f.add(1000)
		wake(t, d)
		sleep(3 * time.Hour)
		attempts := len(e.deliveries())
		sleep(3 * time.Hour)
		if got := len(e.deliveries()); got != attempts || got < 20 {
			t.Fatalf("there were %d attempts, and later %d", attempts, got)
		}
		pending := e.deliveries()[attempts-1].id
		e.mu.Lock()
		e.handle = nil
		e.mu.Unlock()
		grant := subscribe(t, d, r)
		if s := grant.Status; s == nil || s.Active || s.LastError == nil || *s.LastError != delivery.HTTP5xx || s.FailedSince == nil {
			t.Errorf("the status is %+v", s)
		}
		sleep(time.Second)
		got := e.deliveries()
		if len(got) <= attempts || got[attempts].id != pending {
			t.Errorf("after the refresh, %d deliveries; want %s first", len(got)-attempts, pending)
		}
		if s := subscribe(t, d, r).Status; s == nil || !s.Active || s.LastError != nil || s.FailedSince != nil {
			t.Errorf("the status after deliveries is %+v", s)
		}
	})
}

// A subscription without expiry ends when its deliveries have been suspended for seven days. Others
// do not end.
func TestLongSuspension(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for _, test := range []struct {
		name    string
		fails   bool // the endpoint accepts nothing
		forever bool
		after   time.Duration // from the suspension to the sweep
		ends    bool
	}{
		{"before the end", true, true, week - 1, false},
		{"at the end", true, true, week, true},
		{"with expiry", true, false, week + 24*time.Hour, false},
		{"not suspended", false, true, week + 24*time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, f := &endpoint{}, &feed{}
				if test.fails {
					e.handle = status(http.StatusInternalServerError)
				}
				opts := webhook.Options{Store: newMemory(t), Forever: true, MaxTTL: 4 * week, Sweep: 10 * time.Minute}
				d := newDeliverer(t, e, opts)
				stop := run(t, d, f.read)
				r := request("alice", callback)
				r.TTL, r.Forever = 4*week, test.forever
				subscribe(t, d, r)
				f.add(1000)
				wake(t, d)
				sleep(3 * time.Hour)
				stop()
				before := e.deliveries()
				last := before[len(before)-1].at // no time passes until the suspension
				e.mu.Lock()
				e.handle = nil
				e.mu.Unlock()

				sleep(time.Until(last.Add(test.after - opts.Sweep)))
				d = newDeliverer(t, e, opts)
				run(t, d, f.read)
				sleep(opts.Sweep)
				got := e.deliveries()[len(before):]
				if !test.ends {
					if len(got) > 0 {
						t.Errorf("the endpoint got %s", got[0].body)
					}
				} else if want := `{"type":"terminated","error":{"code":-32027,"message":"The callback endpoint accepts no deliveries"}}`; len(got) != 1 || got[0].body != want {
					t.Errorf("the endpoint got %+v, want %s", got, want)
				}
				if grant := subscribe(t, d, r); grant.Created != test.ends {
					t.Errorf("the next grant is %+v", grant)
				}
			})
		})
	}
}

// sleep lets virtual time pass.
func sleep(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func TestKilledReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newMemory(t)
		dying := &mortal{Store: shared}
		e, f := &endpoint{}, &feed{}
		e.handle = func(_ http.ResponseWriter, d posted) {
			if d.id == "evt_3" {
				dying.kill()
			}
		}
		first := newDeliverer(t, e, webhook.Options{Store: dying})
		stop := run(t, first, f.read)
		f.add(5)
		subscribe(t, first, request("alice", callback))
		sleep(time.Second)
		wantIDs(t, e, "evt_1", "evt_2", "evt_3")
		stop()

		second := newDeliverer(t, e, webhook.Options{Store: shared})
		run(t, second, f.read)
		sleep(2 * time.Minute)
		wantIDs(t, e, "evt_1", "evt_2", "evt_3", "evt_3", "evt_4", "evt_5")
	})
}

// While the store is away, nothing is delivered after the delivery in progress. Then the deliveries go on at that one.
func TestStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &mortal{Store: newMemory(t)}
		e, f := &endpoint{}, &feed{}
		e.handle = func(_ http.ResponseWriter, d posted) {
			if d.id == "evt_3" && len(e.deliveries()) == 3 {
				away.kill()
			}
		}
		d := newDeliverer(t, e, webhook.Options{Store: away})
		run(t, d, f.read)
		f.add(5)
		subscribe(t, d, request("alice", callback))
		sleep(time.Minute)
		wantIDs(t, e, "evt_1", "evt_2", "evt_3")
		away.revive()
		sleep(5 * time.Minute)
		wantIDs(t, e, "evt_1", "evt_2", "evt_3", "evt_3", "evt_4", "evt_5")
	})
}

// A replica that ends in order hands over without a pause and without a duplicate.
func TestStoppedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newMemory(t)
		e, f := &endpoint{}, &feed{}
		arrived, release := make(chan struct{}), make(chan struct{})
		e.handle = func(_ http.ResponseWriter, d posted) {
			if d.id == "evt_2" {
				close(arrived)
				<-release
			}
		}
		first := newDeliverer(t, e, webhook.Options{Store: shared})
		second := newDeliverer(t, e, webhook.Options{Store: shared})
		stop := run(t, first, f.read)
		f.add(3)
		subscribe(t, first, request("alice", callback))
		<-arrived
		ended := make(chan struct{})
		go func() { stop(); close(ended) }()
		synctest.Wait()
		close(release)
		<-ended
		run(t, second, f.read)
		synctest.Wait()
		wantIDs(t, e, "evt_1", "evt_2", "evt_3")
	})
}

// The lease of a job ends while its worker waits for the endpoint: no other worker delivers.
func TestShortLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := store.NewMemory(&store.MemoryOptions{Limits: store.Limits{Lease: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		e, f := &endpoint{}, &feed{}
		e.handle = func(http.ResponseWriter, posted) { <-time.After(9 * time.Second) }
		first := newDeliverer(t, e, webhook.Options{Store: memory})
		second := newDeliverer(t, e, webhook.Options{Store: memory})
		stop1, stop2 := run(t, first, f.read), run(t, second, f.read)
		f.add(3)
		subscribe(t, first, request("alice", callback))
		sleep(5 * time.Minute)
		wantIDs(t, e, "evt_1", "evt_2", "evt_3")
		stop1()
		stop2()
	})
}

// A replica that was stopped for minutes, for example with its machine, has lost its subscription.
func TestStalledReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newMemory(t)
		e, f := &endpoint{}, &feed{}
		var again atomic.Bool
		stalled := func(ctx context.Context, sub *delivery.Subscription, position string) (delivery.Batch, error) {
			if !again.Swap(true) {
				<-time.After(4 * time.Minute)
			}
			return f.read(ctx, sub, position)
		}
		e.handle = func(http.ResponseWriter, posted) { <-time.After(25 * time.Second) }
		opts := webhook.Options{Store: memory, Timeout: 30 * time.Second}
		first, second := newDeliverer(t, e, opts), newDeliverer(t, e, opts)
		stop1 := run(t, first, stalled)
		f.add(3)
		subscribe(t, first, request("alice", callback))
		synctest.Wait()
		stop2 := run(t, second, f.read)
		sleep(10 * time.Minute)
		wantIDs(t, e, "evt_1", "evt_2", "evt_3")
		stop1()
		stop2()
	})
}

// The queue lost a job, because the replica was killed between two changes of the store. The next event
// adds it again, and so does a sweep.
func TestLostJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dying := &mortal{Store: newMemory(t)}
		e, f := &endpoint{}, &feed{}
		d := newDeliverer(t, e, webhook.Options{Store: dying})
		run(t, d, f.read)
		r := request("alice", callback)
		r.TTL = 24 * time.Hour
		subscribe(t, d, r)
		sleep(time.Second)
		dying.failPush = true
		f.add(1)
		if err := d.Wake(t.Context(), event, nil); !errors.Is(err, errKilled) {
			t.Errorf("Wake returns %v", err)
		}
		sleep(10 * time.Second)
		wantIDs(t, e)
		f.add(1)
		wake(t, d)
		synctest.Wait()
		wantIDs(t, e, "evt_1", "evt_2")
		sleep(time.Minute)
		dying.failPush = true
		f.add(1)
		if err := d.Wake(t.Context(), event, nil); !errors.Is(err, errKilled) {
			t.Errorf("Wake returns %v", err)
		}
		sleep(6 * time.Minute)
		wantIDs(t, e, "evt_1", "evt_2", "evt_3")
	})
}

// Many subscriptions, several replicas that are stopped and killed, and an endpoint that fails
// often: each subscription gets all events in order, never two at a time.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const subscriptions, events = 20, 30
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		memory := newMemory(t)
		e, f := &endpoint{}, &feed{limit: 7}
		e.handle = func(w http.ResponseWriter, _ posted) {
			mu.Lock()
			fails, delay := random.IntN(10) == 0, time.Duration(random.IntN(200))*time.Millisecond
			mu.Unlock()
			<-time.After(delay)
			if fails {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		type replica struct {
			delivery.Deliverer
			store *mortal
			stop  func()
		}
		start := func() replica {
			s := &mortal{Store: memory}
			d := newDeliverer(t, e, webhook.Options{Store: s, MaxPerPrincipal: subscriptions, Attempts: 50, RetryWindow: time.Hour, Deliveries: 8, DeliveriesPerHost: 8, Verified: anyURL})
			return replica{d, s, run(t, d, f.read)}
		}
		replicas := []replica{start(), start(), start()}
		for i := range subscriptions {
			r := request("alice", fmt.Sprintf("https://proxy.example.com/hooks/%d", i))
			r.TTL = 24 * time.Hour
			subscribe(t, replicas[0].Deliverer, r)
		}
		synctest.Wait()
		for i := range events {
			f.add(1)
			if err := replicas[i%3].Wake(t.Context(), event, nil); err != nil {
				t.Fatal(err)
			}
			if i%5 == 4 {
				old := replicas[i%3]
				if i%2 == 0 {
					old.store.kill()
				}
				old.stop()
				replicas[i%3] = start()
				synctest.Wait()
			}
		}
		sleep(3 * time.Hour)
		if e.overlap {
			t.Error("two deliveries to one subscription at a time")
		}
		last := map[string]int{}
		for _, d := range e.deliveries() {
			var n int
			if _, err := fmt.Sscanf(d.id, "evt_%d", &n); err != nil {
				t.Fatal(err)
			}
			if n != last[d.url] && n != last[d.url]+1 {
				t.Fatalf("%s got event %d after %d", d.url, n, last[d.url])
			}
			last[d.url] = n
		}
		for i := range subscriptions {
			if n := last[fmt.Sprintf("https://proxy.example.com/hooks/%d", i)]; n != events {
				t.Errorf("subscription %d got %d events", i, n)
			}
		}
	})
}

func TestControlBodies(t *testing.T) {
	for _, test := range []struct {
		name  string
		act   func(t *testing.T, d delivery.Deliverer, f *feed, id string)
		want  string // the body
		ended bool
	}{
		{"gap", func(t *testing.T, d delivery.Deliverer, f *feed, _ string) {
			f.mu.Lock()
			f.change = func(_ *delivery.Subscription, position int, batch *delivery.Batch) {
				if position == 1 {
					*batch = delivery.Batch{Gap: true, GapCursor: json.RawMessage(`"2"`), Position: "2"}
				}
			}
			f.mu.Unlock()
			f.add(1)
			wake(t, d)
		}, `{"type":"gap","cursor":"2"}`, false},
		{"ended by the source", func(t *testing.T, d delivery.Deliverer, f *feed, _ string) {
			f.mu.Lock()
			f.change = func(_ *delivery.Subscription, _ int, batch *delivery.Batch) {
				*batch = delivery.Batch{Ended: json.RawMessage(`{"code":-32024,"message":"Forbidden"}`)}
			}
			f.mu.Unlock()
			wake(t, d)
		}, `{"type":"terminated","error":{"code":-32024,"message":"Forbidden"}}`, true},
		{"terminated", func(t *testing.T, d delivery.Deliverer, _ *feed, id string) {
			if err := d.Terminate(t.Context(), id, json.RawMessage(`{"code":-32023,"message":"NotFound"}`)); err != nil {
				t.Fatal(err)
			}
		}, `{"type":"terminated","error":{"code":-32023,"message":"NotFound"}}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed := false
				e, f := &endpoint{}, &feed{}
				e.handle = func(w http.ResponseWriter, d posted) {
					if !failed && strings.HasPrefix(d.id, "msg_") {
						failed = true
						w.WriteHeader(http.StatusInternalServerError)
					}
				}
				d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
				run(t, d, f.read)
				r := request("alice", callback)
				grant := subscribe(t, d, r)
				f.add(1)
				wake(t, d)
				synctest.Wait()
				test.act(t, d, f, grant.ID)
				sleep(time.Minute)
				got := e.deliveries()
				if len(got) != 3 || got[1].body != test.want || got[2].body != test.want || got[1].id != got[2].id {
					t.Fatalf("the endpoint got %+v", got)
				}
				if err := d.Unsubscribe(t.Context(), r.Key); errors.Is(err, delivery.ErrNoSubscription) != test.ended {
					t.Errorf("Unsubscribe returns %v", err)
				}
				if again := subscribe(t, d, r); !again.Created {
					t.Error("a subscription that has ended was refreshed")
				}
			})
		})
	}
}

func TestUnsubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{handle: status(500)}, &feed{}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
		run(t, d, f.read)
		r := request("alice", callback)
		grant := subscribe(t, d, r)
		f.add(2)
		wake(t, d)
		synctest.Wait()
		other := r.Key
		other.Principal = "mallory"
		if err := d.Unsubscribe(t.Context(), other); !errors.Is(err, delivery.ErrNoSubscription) {
			t.Errorf("another principal: %v", err)
		}
		if err := d.Unsubscribe(t.Context(), r.Key); err != nil {
			t.Error(err)
		}
		if err := d.Unsubscribe(t.Context(), r.Key); !errors.Is(err, delivery.ErrNoSubscription) {
			t.Errorf("the second time: %v", err)
		}
		if err := d.Terminate(t.Context(), grant.ID, json.RawMessage(`{}`)); !errors.Is(err, delivery.ErrNoSubscription) {
			t.Errorf("Terminate: %v", err)
		}
		wake(t, d)
		sleep(time.Hour)
		wantIDs(t, e, "evt_1")
	})
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
		run(t, d, f.read)
		r := request("alice", callback)
		r.TTL = 10 * time.Minute
		subscribe(t, d, r)
		sleep(9 * time.Minute)
		subscribe(t, d, r)
		sleep(9 * time.Minute)
		f.add(1)
		wake(t, d)
		synctest.Wait()
		wantIDs(t, e, "evt_1")
		sleep(2 * time.Minute)
		f.add(1)
		wake(t, d)
		sleep(time.Hour)
		wantIDs(t, e, "evt_1")
		r.Start = func(context.Context, string) (string, error) { return "2", nil }
		if grant := subscribe(t, d, r); !grant.Created || grant.Position != "2" {
			t.Errorf("after the end, the grant is %+v", grant)
		}
	})
}

func TestGrantedLifetime(t *testing.T) {
	for _, test := range []struct {
		name    string
		ttl     time.Duration
		forever bool
		opts    webhook.Options
		want    time.Duration // 0: no end
	}{
		{"default", 0, false, webhook.Options{}, time.Hour},
		{"suggested", 2 * time.Hour, false, webhook.Options{}, 2 * time.Hour},
		{"too short", time.Second, false, webhook.Options{}, time.Minute},
		{"too long", 1000 * time.Hour, false, webhook.Options{}, 24 * time.Hour},
		{"forever is refused", 0, true, webhook.Options{}, 24 * time.Hour},
		{"forever", time.Minute, true, webhook.Options{Forever: true}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.opts.Store = newMemory(t)
				d := newDeliverer(t, &endpoint{}, test.opts)
				r := request("alice", callback)
				r.TTL, r.Forever = test.ttl, test.forever
				grant := subscribe(t, d, r)
				if test.want == 0 {
					if !grant.Expires.IsZero() {
						t.Errorf("it ends %v", grant.Expires)
					}
				} else if got := time.Until(grant.Expires); got != test.want {
					t.Errorf("it lasts %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
		run(t, d, f.read)
		first := request("alice", callback)
		subscribe(t, d, first)
		second := first
		second.Secret = shared.NewSecret().Text()
		subscribe(t, d, second)
		check := func(want1, want2 bool) {
			t.Helper()
			f.add(1)
			wake(t, d)
			synctest.Wait()
			got := e.deliveries()
			last := got[len(got)-1]
			for i, secret := range []string{first.Secret, second.Secret} {
				parsed, _ := shared.ParseSecret(secret)
				if err := signature.Verify(last.header, parsed, []byte(last.body)); (err == nil) != []bool{want1, want2}[i] {
					t.Errorf("secret %d: %v", i+1, err)
				}
			}
		}
		check(true, true)
		sleep(11 * time.Minute)
		check(false, true)
	})
}

// After a rotation, a replica that is delivering signs with the new secret too, although another replica
// has changed it.
func TestRotationAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newMemory(t)
		e, f := &endpoint{}, &feed{}
		arrived, release := make(chan struct{}), make(chan struct{})
		e.handle = func(_ http.ResponseWriter, d posted) {
			if d.id == "evt_1" {
				close(arrived)
				<-release
			}
		}
		delivering := newDeliverer(t, e, webhook.Options{Store: memory})
		run(t, delivering, f.read)
		f.add(2)
		first := request("alice", callback)
		subscribe(t, delivering, first)
		<-arrived
		other := newDeliverer(t, e, webhook.Options{Store: memory})
		defer webhook.Close(other)
		second := first
		second.Secret = shared.NewSecret().Text()
		subscribe(t, other, second)
		close(release)
		synctest.Wait()
		wantIDs(t, e, "evt_1", "evt_2")
		last := e.deliveries()[1]
		for i, secret := range []string{first.Secret, second.Secret} {
			parsed, _ := shared.ParseSecret(secret)
			if err := signature.Verify(last.header, parsed, []byte(last.body)); err != nil {
				t.Errorf("secret %d: %v", i+1, err)
			}
		}
	})
}

func TestPollsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		f.change = func(_ *delivery.Subscription, _ int, batch *delivery.Batch) { batch.Next = 30 * time.Second }
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
		run(t, d, f.read)
		subscribe(t, d, request("alice", callback))
		synctest.Wait()
		f.add(1)
		sleep(31 * time.Second)
		wantIDs(t, e, "evt_1")
		f.add(1)
		wake(t, d) // it does not wait for the next poll
		synctest.Wait()
		wantIDs(t, e, "evt_1", "evt_2")
		f.mu.Lock()
		f.reads = 0
		f.mu.Unlock()
		sleep(5 * time.Minute)
		if f.reads < 9 || f.reads > 13 {
			t.Errorf("the source was read %d times in 5 minutes", f.reads)
		}
	})
}

func TestUndeliverable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		f.change = func(_ *delivery.Subscription, position int, batch *delivery.Batch) {
			if position == 0 {
				batch.Events[0].Body = json.RawMessage(`"` + strings.Repeat("x", shared.MaxBody) + `"`)
				batch.Events[1].ID = "two words"
			}
		}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t)})
		run(t, d, f.read)
		f.add(3)
		subscribe(t, d, request("alice", callback))
		synctest.Wait()
		wantIDs(t, e, "evt_3")
	})
}

func TestHostLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		e.handle = func(http.ResponseWriter, posted) { <-time.After(time.Second) }
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t), DeliveriesPerHost: 3, Verified: anyURL})
		run(t, d, f.read)
		for i := range 20 {
			subscribe(t, d, request("alice", fmt.Sprintf("https://proxy.example.com/hooks/%d", i)))
		}
		f.add(1)
		wake(t, d)
		sleep(time.Minute)
		if got := len(e.deliveries()); got != 20 || e.most > 3 {
			t.Errorf("%d deliveries, %d at a time", got, e.most)
		}
	})
}

// The slow endpoints of one principal, each with a host of its own, leave workers for other principals.
func TestPrincipalLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := &endpoint{}, &feed{}
		slow, most := 0, 0 // guarded by mu
		var mu sync.Mutex
		e.handle = func(_ http.ResponseWriter, d posted) {
			if strings.HasPrefix(d.url, "https://bob.") {
				return
			}
			mu.Lock()
			slow++
			most = max(most, slow)
			mu.Unlock()
			<-time.After(9 * time.Second)
			mu.Lock()
			slow--
			mu.Unlock()
		}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t), Deliveries: 5})
		run(t, d, f.read)
		for i := range 20 {
			subscribe(t, d, request("alice", fmt.Sprintf("https://%d.example.com/hooks", i)))
		}
		f.add(1)
		wake(t, d)
		sleep(time.Second)
		subscribe(t, d, request("bob", "https://bob.example.com/hooks"))
		woken := time.Now()
		f.add(1)
		wake(t, d)
		sleep(2 * time.Minute)
		got := e.deliveries()
		for _, d := range got {
			if waited := d.at.Sub(woken); strings.HasPrefix(d.url, "https://bob.") && waited > 5*time.Second {
				t.Errorf("the delivery to another principal waited %v", waited)
			}
		}
		if len(got) != 42 || most != 3 {
			t.Errorf("%d deliveries, %d of one principal at a time, want 42 and 3", len(got), most)
		}
	})
}

// A key is replaced: first the new one and the old one, then the new one alone. Subscriptions stay, and go on
// where they were; the old key may be removed when they were refreshed.
func TestKeysAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newMemory(t)
		e, f := &endpoint{}, &feed{}
		now := [][]byte{bytes.Repeat([]byte{1}, 32)}
		r := request("alice", callback)
		for i, keys := range [][][]byte{keys, {now[0], keys[0]}, now} {
			d := newDeliverer(t, e, webhook.Options{Store: memory, Keys: keys})
			stop := run(t, d, f.read)
			f.add(1)
			if i < 2 {
				subscribe(t, d, r)
			}
			synctest.Wait() // until it has read the subscription
			wake(t, d)
			sleep(time.Second)
			stop()
		}
		wantIDs(t, e, "evt_1", "evt_2", "evt_3")
	})
}

// What the store contains does not reveal secrets, URLs and arguments.
func TestStoreIsSealed(t *testing.T) {
	memory := newMemory(t)
	d := newDeliverer(t, &endpoint{}, webhook.Options{Store: memory})
	r := request("alice", callback)
	subscribe(t, d, r)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	items := 0
	for item, err := range memory.Watch(ctx, "webhook") {
		if err != nil {
			t.Fatal(err)
		}
		for _, plain := range []string{r.Secret[6:], "proxy.example", "severity", "alice"} {
			if strings.Contains(string(item.Value), plain) {
				t.Errorf("%s contains %q", item.Key, plain)
			}
		}
		if items++; items == 3 {
			break // the subscription, its state, and the verification
		}
	}
}

var _ store.Store = (*mortal)(nil)
