package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/transport/store"
)

var errDown = errors.New("the store is down")

// A link is a replica's connection to a store. It can fail for some time, or for good, as when the
// replica is killed.
type link struct {
	store.Store
	killed context.Context
	kill   context.CancelFunc

	silent atomic.Bool // messages are not handled, as if the replica was stopped

	deletes atomic.Pointer[chan struct{}] // what is to be deleted waits until it is closed; nil if nothing waits

	mu    sync.Mutex
	down  bool
	full  bool
	left  int  // number of the operation that kills the replica, 0 for none
	after bool // that operation has its effect
}

func newLink(t *testing.T, shared store.Store) *link {
	l := &link{Store: shared}
	l.killed, l.kill = context.WithCancel(t.Context())
	return l
}

// begin reports whether an operation has its effect, and whether it succeeds.
func (l *link) begin() (effect, success bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down || l.killed.Err() != nil {
		return false, false
	}
	if l.left == 0 {
		return true, true
	}
	if l.left--; l.left > 0 {
		return true, true
	}
	l.kill()
	return l.after, false
}

func (l *link) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

func (l *link) setFull(full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = full
}

func (l *link) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}

func (l *link) killAt(operation int, after bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.after = operation, after
}

// through performs an operation.
func through[T any](l *link, do func() (T, error)) (T, error) {
	var zero T
	effect, success := l.begin()
	if !effect {
		return zero, errDown
	}
	result, err := do()
	if !success {
		return zero, errDown
	}
	return result, err
}

func (l *link) Get(ctx context.Context, key string) (store.Item, error) {
	return through(l, func() (store.Item, error) { return l.Store.Get(ctx, key) })
}

func (l *link) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if l.isFull() {
		return 0, store.ErrFull
	}
	return through(l, func() (uint64, error) { return l.Store.Create(ctx, key, value, ttl) })
}

func (l *link) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	return through(l, func() (uint64, error) { return l.Store.Update(ctx, key, value, revision, ttl) })
}

func (l *link) Delete(ctx context.Context, key string, revision uint64) error {
	if let := l.deletes.Load(); let != nil {
		<-*let
	}
	_, err := through(l, func() (struct{}, error) { return struct{}{}, l.Store.Delete(ctx, key, revision) })
	return err
}

func (l *link) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	return through(l, func() ([]byte, error) { return l.Store.Request(ctx, subject, data) })
}

// until returns a context that ends with ctx or when the replica is killed.
func (l *link) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.killed, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func (l *link) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	return through(l, func() (func(), error) {
		ctx, cancel := l.until(ctx)
		stop, err := l.Store.Subscribe(ctx, subject, func(ctx context.Context, m store.Message) {
			if !l.silent.Load() {
				handle(ctx, m)
			}
		})
		return func() {
			cancel()
			stop()
		}, err
	})
}

func (l *link) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		ctx, cancel := l.until(ctx)
		defer cancel()
		if effect, success := l.begin(); !effect || !success {
			yield(store.Item{}, errDown)
			return
		}
		for item, err := range l.Store.Watch(ctx, prefix) {
			if !yield(item, err) {
				return
			}
		}
	}
}

// A replica is a channel with a connection to a store.
type replica struct {
	*rig
	*link
}

// stop ends a replica: it is killed, or its channel is closed.
func (r *replica) end(kill bool) {
	if kill {
		r.kill()
	}
	r.rig.stop()
}

func startReplica(t *testing.T, shared store.Store, name string) *replica {
	l := newLink(t, shared)
	return &replica{start(t, &channel.Options{
		Store: l, ReconnectTimeout: time.Hour,
		Authenticate: func(*http.Request) (channel.Person, bool) { return channel.Person{Name: name}, true },
	}), l}
}

// sharing runs a test with replicas, in virtual time.
func sharing(t *testing.T, n int, test func(t *testing.T, shared store.Store, replicas []*replica)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		replicas := make([]*replica, n)
		for i := range replicas {
			replicas[i] = startReplica(t, shared, fmt.Sprintf("person %d", i))
		}
		defer func() {
			for _, r := range replicas {
				r.end(false)
			}
		}()
		test(t, shared, replicas)
	})
}

// numbered is a request with its own arguments.
func numbered(id string, n int) *approval.Request {
	r := request(id)
	r.Arguments = json.RawMessage(fmt.Sprintf(`{"n": %d}`, n))
	return r
}

func answerOf(id string, approved bool) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","result":%t,"id":%q}`, approved, id)
}

// A request that was left by a killed replica is not taken for a call with another rule, reason or trust:
// the person has not been shown these.
func TestLeftRequestIsTakenByEqualCalls(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *approval.Request)
		taken  bool
	}{
		"the same call":  {func(*approval.Request) {}, true},
		"another rule":   {func(r *approval.Request) { r.Rule = "payments" }, false},
		"another reason": {func(r *approval.Request) { r.Reason = "this is production" }, false},
		"trusted":        {func(r *approval.Request) { r.Trusted = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			sharing(t, 2, func(t *testing.T, _ store.Store, replicas []*replica) {
				left := request("left")
				left.Rule, left.Reason = "reads", "reads a test table"
				replicas[0].askWith(t.Context(), left)
				replicas[0].kill()
				synctest.Wait()
				next := request("next")
				next.Rule, next.Reason = left.Rule, left.Reason
				test.change(next)
				person := replicas[1].connect(t, "dovetail.approval.v1")
				done := replicas[1].askWith(t.Context(), next)
				shown := 1
				if !test.taken {
					shown = 2
				}
				for range shown {
					person.asked(t)
				}
				person.say(t, answerOf("left", true))
				if !test.taken {
					person.say(t, answerOf("next", false))
				}
				select {
				case v := <-done:
					if v.err != nil || v.answer.Approved != test.taken {
						t.Errorf("the request ended with %+v", v)
					}
				case <-time.After(time.Minute):
					t.Error("the request has no answer")
				}
			})
		})
	}
}

// A request of one replica is shown and decided at another.
func TestDecidedAtAnotherReplica(t *testing.T) {
	sharing(t, 3, func(t *testing.T, _ store.Store, replicas []*replica) {
		var persons []*approver
		for _, r := range replicas {
			persons = append(persons, r.connect(t, "dovetail.approval.v1"))
		}
		for i := range 300 {
			asking, person := i%3, (i+1+i/3%2)%3
			id, yes := fmt.Sprint("request-", i), i%5 != 0
			done := replicas[asking].askWith(t.Context(), numbered(id, i))
			for _, p := range persons {
				if q := p.asked(t); q.ID != id || string(q.Params.Args) != fmt.Sprintf(`{"n": %d}`, i) {
					t.Fatalf("a person is asked %+v", q)
				}
			}
			persons[person].say(t, answerOf(id, yes))
			v := <-done
			if v.err != nil || v.answer.Approved != yes || v.answer.By != fmt.Sprint("person ", person) {
				t.Fatalf("request %d ended with %+v", i, v)
			}
			synctest.Wait()
			for j, p := range persons {
				if j == person {
					p.wantSilence(t)
				} else if q := p.lastWord(t, id); q.Method != "withdrawn" || q.Params.ID != id || q.Params.Decision == "" || q.Params.By != v.answer.By {
					t.Fatalf("another person gets %+v", q)
				}
			}
		}
	})
}

// If several persons decide at the same time, the first decision counts.
func TestOneDecisionCounts(t *testing.T) {
	sharing(t, 3, func(t *testing.T, shared store.Store, replicas []*replica) {
		yes, no := replicas[1].connect(t, "dovetail.approval.v1"), replicas[2].connect(t, "dovetail.approval.v1")
		for i := range 100 {
			id := fmt.Sprint("request-", i)
			done := replicas[0].askWith(t.Context(), numbered(id, i))
			yes.asked(t)
			no.asked(t)
			first, second := yes, no
			if i%2 == 1 {
				first, second = no, yes
			}
			for _, p := range []*approver{first, second} { // without waiting for the effect
				if err := p.WriteMessage(1, []byte(answerOf(id, p == yes))); err != nil {
					t.Fatal(err)
				}
			}
			v := <-done
			synctest.Wait()
			winner, loser := yes, no
			if !v.answer.Approved {
				winner, loser = no, yes
			}
			if want := map[*approver]string{yes: "person 1", no: "person 2"}[winner]; v.err != nil || v.answer.By != want {
				t.Fatalf("the request ended with %+v, want the decision of %s", v, want)
			}
			winner.wantSilence(t)
			for refused := false; !refused; {
				q := loser.asked(t)
				refused = q.Method == "refused" && q.Params.ID == id
				if !refused && q.Method != "withdrawn" {
					t.Fatalf("the other person gets %+v", q)
				}
			}
			for len(loser.frames) > 0 {
				<-loser.frames // withdrawn, after refused
			}
		}
		wantNoRecords(t, shared)
	})
}

// wantNoRecords checks that no request is open.
func wantNoRecords(t *testing.T, shared store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for item, err := range shared.Watch(ctx, "approval") {
		if err == nil {
			t.Errorf("the store has %s: %s", item.Key, item.Value)
		}
	}
}

// A request survives the end of all replicas, killed or closed, and is decided once.
func TestPendingForTenRestarts(t *testing.T) {
	sharing(t, 3, func(t *testing.T, shared store.Store, replicas []*replica) {
		var done <-chan verdict
		for restart := range 10 {
			done = replicas[restart%3].askWith(t.Context(), request(fmt.Sprint("attempt-", restart)))
			wantPending(t, done)
			for i, r := range replicas {
				r.end(restart%2 == 0)
				replicas[i] = startReplica(t, shared, "anna")
			}
			if v := <-done; v.err == nil {
				t.Fatalf("restart %d: the call has ended with %+v", restart, v)
			}
		}
		person := replicas[0].connect(t, "dovetail.approval.v1")
		if q := person.asked(t); q.ID != "attempt-0" {
			t.Errorf("the person is asked %+v, want the first request", q)
		}
		person.say(t, answerOf("attempt-0", true)) // while no call waits
		first := replicas[1].askWith(t.Context(), request("retry-1"))
		wantApproved(t, first, true)
		person.wantSilence(t) // it was not asked again
		second := replicas[2].askWith(t.Context(), request("retry-2"))
		wantPending(t, second)
		if q := person.asked(t); q.ID != "retry-2" {
			t.Errorf("the person is asked %+v, want the second call", q)
		}
		person.say(t, answerOf("retry-2", false))
		wantApproved(t, second, false)
		wantNoRecords(t, shared)
	})
}

// A call that runs as a task is made again with the same request when its replica was killed. It gets the
// decision that was made in between, and two calls never have the request.
func TestSameRequestAtAnotherReplica(t *testing.T) {
	sharing(t, 3, func(t *testing.T, shared store.Store, replicas []*replica) {
		killed := replicas[0].askWith(t.Context(), request("task"))
		wantPending(t, killed)
		if v := <-replicas[1].askWith(t.Context(), request("task")); v.err == nil || !strings.Contains(v.err.Error(), "already pending") {
			t.Errorf("a second call gets %+v", v)
		}
		person := replicas[1].connect(t, "dovetail.approval.v1")
		person.asked(t)
		replicas[0].kill()
		<-killed
		person.say(t, answerOf("task", true))
		synctest.Wait()
		wantApproved(t, replicas[2].askWith(t.Context(), request("task")), true)
		person.wantSilence(t)
		wantNoRecords(t, shared)
	})
}

// Of equal calls, one gets the decision about a request that was left. A call with other arguments
// or of another caller does not.
func TestDecisionForOneCall(t *testing.T) {
	sharing(t, 3, func(t *testing.T, shared store.Store, replicas []*replica) {
		left := replicas[0].askWith(t.Context(), request("left"))
		replicas[0].kill()
		<-left
		person := replicas[1].connect(t, "dovetail.approval.v1")
		person.asked(t)
		person.say(t, answerOf("left", true))
		mallory := request("mallory")
		mallory.Caller = "mallory"
		var calls []<-chan verdict
		for i, r := range []*approval.Request{numbered("other", 2), mallory, request("a"), request("b"), request("c")} {
			calls = append(calls, replicas[1+i%2].askWith(t.Context(), r))
		}
		var approved []int
		for i, call := range calls {
			select {
			case v := <-call:
				if approved = append(approved, i); v.err != nil || !v.answer.Approved {
					t.Errorf("a call ended with %+v", v)
				}
			default:
			}
		}
		if len(approved) != 1 || approved[0] < 2 {
			t.Errorf("the calls %v were approved, want one equal call", approved)
		}
		if n := len(person.frames); n != 4 {
			t.Errorf("the person was asked %d times, want 4", n)
		}
	})
}

// A call that ends withdraws its request everywhere.
func TestWithdrawnAtAnotherReplica(t *testing.T) {
	sharing(t, 2, func(t *testing.T, shared store.Store, replicas []*replica) {
		person := replicas[1].connect(t, "dovetail.approval.v1")
		ctx, cancel := context.WithCancel(t.Context())
		done := replicas[0].askWith(ctx, request("r"))
		person.asked(t)
		cancel()
		if v := <-done; !errors.Is(v.err, context.Canceled) {
			t.Errorf("the request ended with %+v", v)
		}
		if q := person.asked(t); q.Method != "withdrawn" || q.Params.ID != "r" {
			t.Errorf("the person gets %+v", q)
		}
		person.say(t, answerOf("r", true))
		if q := person.asked(t); q.Method != "refused" {
			t.Errorf("the person gets %+v", q)
		}
		wantNoRecords(t, shared)
	})
}

// An approver is shown at most 4,096 requests of all replicas.
func TestNumberOfShownRequests(t *testing.T) {
	for open, want := range map[int]int{4096: 4096, 4097: 4096} {
		t.Run(fmt.Sprint(open), func(t *testing.T) {
			sharing(t, 1, func(t *testing.T, shared store.Store, replicas []*replica) {
				ctx, cancel := context.WithCancel(t.Context())
				done := replicas[0].askWith(ctx, request("r0"))
				prefix, item := recordOf(t, shared)
				for i := 1; i < open; i++ { // records of other replicas
					value := strings.Replace(string(item.Value), `"id":"r0"`, fmt.Sprintf(`"id":"r%d"`, i), 1)
					if _, err := shared.Create(t.Context(), fmt.Sprint(prefix, "/copy-", i), []byte(value), time.Hour); err != nil {
						t.Fatal(err)
					}
				}
				person := replicas[0].connect(t, "dovetail.approval.v1")
				got := 0
				for more := true; more; {
					synctest.Wait()
					select {
					case <-person.frames:
						got++
					default:
						more = false
					}
				}
				if got != want {
					t.Errorf("%d of %d requests are shown, want %d", got, open, want)
				}
				cancel()
				<-done
			})
		})
	}
}

// recordOf returns the only open request, and the prefix of its key.
func recordOf(t *testing.T, shared store.Store) (prefix string, item store.Item) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for item, err := range shared.Watch(ctx, "approval") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(item.Value), `"frame"`) {
			return item.Key[:strings.LastIndex(item.Key, "/")], item
		}
	}
	t.Fatal("there is no record")
	return "", item
}

// The decisions about the last 64 requests that have ended with an unknown decision are still shown when they are
// announced.
func TestLateAnnouncements(t *testing.T) {
	sharing(t, 1, func(t *testing.T, shared store.Store, replicas []*replica) {
		person := replicas[0].connect(t, subprotocol)
		const ended = 65 // one more than are kept
		for i := range ended {
			ctx, cancel := context.WithCancel(t.Context())
			id := fmt.Sprint("r", i)
			done := replicas[0].askWith(ctx, numbered(id, i))
			person.asked(t)
			cancel()
			<-done
			person.wantDecided(t, id, "", "", "", 0)
		}
		for i := range ended {
			id := fmt.Sprint("r", i)
			if err := shared.Publish(t.Context(), "approval/decided/default", fmt.Appendf(nil, `{"id":%q,"decision":{"approved":true,"by":"ann"}}`, id)); err != nil {
				t.Fatal(err)
			}
			if i < ended-64 {
				person.wantSilence(t)
			} else {
				person.wantDecided(t, id, "approved", "ann", "", 0)
			}
		}
	})
}

// A request waits for an approver for exactly ReconnectTimeout.
func TestReconnectTimeoutOfReplicas(t *testing.T) {
	sharing(t, 2, func(t *testing.T, _ store.Store, replicas []*replica) {
		q := request("r")
		q.Deadline = q.Created.Add(2 * time.Hour)
		done := replicas[0].askWith(t.Context(), q)
		pass(time.Hour - 1)
		wantPending(t, done)
		pass(1)
		wantError(t, done, approval.NoApprover, "")
		q = request("other")
		q.Deadline = q.Created.Add(2 * time.Hour)
		done = replicas[0].askWith(t.Context(), q)
		pass(time.Hour - 1)
		person := replicas[1].connect(t, "dovetail.approval.v1")
		pass(time.Minute)
		wantPending(t, done)
		person.asked(t)
		person.say(t, answerOf("other", true))
		wantApproved(t, done, true)
	})
}

// While the replica with the approver is stopped, a request at another replica waits.
func TestReplicaWithApproverIsStopped(t *testing.T) {
	sharing(t, 2, func(t *testing.T, _ store.Store, replicas []*replica) {
		person := replicas[1].connect(t, "dovetail.approval.v1")
		replicas[1].silent.Store(true)
		q := request("a")
		q.Deadline = q.Created.Add(2 * time.Hour)
		done := replicas[0].askWith(t.Context(), q)
		pass(time.Hour + 10*time.Second) // after the ReconnectTimeout
		wantPending(t, done)
		replicas[1].silent.Store(false)
		pass(10 * time.Second)
		person.asked(t)
		person.say(t, answerOf("a", true))
		wantApproved(t, done, true)
	})
}

// Requests expire at other replicas too.
func TestExpiredAtAnotherReplica(t *testing.T) {
	sharing(t, 2, func(t *testing.T, shared store.Store, replicas []*replica) {
		person := replicas[1].connect(t, "dovetail.approval.v1")
		left := replicas[0].askWith(t.Context(), request("left"))
		person.asked(t)
		replicas[0].kill()
		<-left
		pass(5*time.Minute - time.Second)
		retry := replicas[1].askWith(t.Context(), request("retry"))
		person.wantSilence(t) // the person has been asked
		pass(2 * time.Second)
		wantPending(t, retry)
		for q := (shown{}); q.ID != "retry"; {
			q = person.asked(t) // again, for the call that has time left
		}
		pass(5 * time.Minute)
		wantError(t, retry, approval.Expired, "")
		wantNoRecords(t, shared)
	})
}

// While the store is down, requests fail, and answers are asked for again. Then everything works as
// before.
func TestStoreIsDown(t *testing.T) {
	sharing(t, 2, func(t *testing.T, _ store.Store, replicas []*replica) {
		person := replicas[1].connect(t, "dovetail.approval.v1")
		replicas[0].setDown(true)
		wantError(t, replicas[0].ask(t, "a"), approval.Failed, "the store of the approvals cannot be reached: "+errDown.Error())
		replicas[0].setDown(false)
		done := replicas[0].ask(t, "b")
		person.asked(t)
		replicas[1].setDown(true)
		person.say(t, answerOf("b", true))
		if q := person.asked(t); q.Method != "refused" || q.Params.Reason != "the store cannot be reached: answer again" {
			t.Errorf("the person gets %+v", q)
		}
		refused := time.Now()
		if q := person.asked(t); q.ID != "b" || q.Method != "approve" || time.Since(refused) != time.Second {
			t.Errorf("the person gets %+v after %v, want the request after a second", q, time.Since(refused))
		}
		wantPending(t, done)
		replicas[1].setDown(false)
		person.say(t, answerOf("b", true))
		wantApproved(t, done, true)
		// An approver that connects while the store is down is shown the requests later.
		replicas[0].setDown(true)
		late := replicas[0].connect(t, "dovetail.approval.v1")
		waiting := replicas[1].ask(t, "c")
		late.wantSilence(t)
		replicas[0].setDown(false)
		pass(10 * time.Second)
		if q := late.asked(t); q.ID != "c" {
			t.Errorf("the approver gets %+v", q)
		}
		late.say(t, answerOf("c", true))
		wantApproved(t, waiting, true)
	})
}

// A full store refuses new requests, and its stored requests are decided.
func TestStoreIsFull(t *testing.T) {
	sharing(t, 1, func(t *testing.T, _ store.Store, replicas []*replica) {
		person := replicas[0].connect(t, "dovetail.approval.v1")
		open := replicas[0].ask(t, "a")
		person.asked(t)
		replicas[0].setFull(true)
		if v := <-replicas[0].ask(t, "b"); !errors.Is(v.err, approval.Failed) || !errors.Is(v.err, store.ErrFull) || v.answer.Approved {
			t.Errorf("the request ended with %+v", v)
		}
		person.say(t, answerOf("a", true))
		wantApproved(t, open, true)
		replicas[0].setFull(false)
		again := replicas[0].ask(t, "b")
		person.asked(t)
		person.say(t, answerOf("b", true))
		wantApproved(t, again, true)
	})
}

// If the store loses its data, calls that wait fail, and are not approved.
func TestEmptiedStore(t *testing.T) {
	sharing(t, 1, func(t *testing.T, shared store.Store, replicas []*replica) {
		person := replicas[0].connect(t, "dovetail.approval.v1")
		waiting := replicas[0].ask(t, "a")
		person.asked(t)
		for item, err := range shared.Watch(t.Context(), "approval/requests") {
			if err != nil {
				t.Fatal(err)
			}
			if err := shared.Delete(t.Context(), item.Key, 0); err != nil {
				t.Fatal(err)
			}
			break
		}
		wantError(t, waiting, approval.Lost, "another call has the request")
		again := replicas[0].ask(t, "b")
		for q := person.asked(t); q.ID != "b"; q = person.asked(t) { // after the withdrawal of the first one
		}
		person.say(t, answerOf("b", true))
		wantApproved(t, again, true)
	})
}

// A decision that arrives after its caller has left does not decide an equal call.
func TestDecisionAboutCallerWhoHasLeft(t *testing.T) {
	sharing(t, 2, func(t *testing.T, _ store.Store, replicas []*replica) {
		person := replicas[0].connect(t, "dovetail.approval.v1")
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		left := replicas[1].askWith(ctx, request("a"))
		person.asked(t)
		let := make(chan struct{})
		replicas[1].deletes.Store(&let)
		leave()
		synctest.Wait() // the request is about to be deleted
		person.say(t, answerOf("a", true))
		synctest.Wait()
		next := replicas[0].ask(t, "b")
		synctest.Wait()
		close(let)
		if v := <-left; !errors.Is(v.err, context.Canceled) || v.answer.Approved {
			t.Errorf("the call whose caller has left ended with %+v", v)
		}
		for q := person.asked(t); q.ID != "b"; q = person.asked(t) { // after the withdrawal of the first one
		}
		person.say(t, answerOf("b", true))
		wantApproved(t, next, true)
	})
}

// Without ReconnectTimeout a request needs an approver at any replica.
func TestApproverAtAnyReplica(t *testing.T) {
	sharing(t, 1, func(t *testing.T, shared store.Store, replicas []*replica) {
		r := start(t, &channel.Options{Store: shared})
		defer r.stop()
		wantError(t, r.ask(t, "a"), approval.NoApprover, "Approval channel not connected")
		person := replicas[0].connect(t)
		done := r.ask(t, "b")
		person.say(t, answerOf(person.asked(t).ID, true))
		wantApproved(t, done, true)
		wantNoRecords(t, shared)
	})
}

// Two channels with the same name cannot be two persons of a quorum.
func TestQuorumNeedsTwoNames(t *testing.T) {
	sharing(t, 1, func(t *testing.T, shared store.Store, replicas []*replica) {
		same := startReplica(t, shared, "anna")
		defer same.end(false)
		other := start(t, &channel.Options{Store: shared, Name: "other", ReconnectTimeout: time.Hour})
		defer other.stop()
		first := replicas[0].ask(t, "r")
		wantError(t, rigError(same.ask(t, "r")), "", "channel: the request is already pending")
		different := other.ask(t, "r")
		person := replicas[0].connect(t)
		person.asked(t)
		person.say(t, answerOf("r", true))
		wantApproved(t, first, true)
		wantPending(t, different)
	})
}

// rigError adds an empty code to the error of a request.
func rigError(done <-chan verdict) <-chan verdict {
	coded := make(chan verdict, 1)
	v := <-done
	if v.err != nil {
		v.err = &noCode{v.err}
	}
	coded <- v
	return coded
}

type noCode struct{ error }

func (*noCode) Is(target error) bool { return target == approval.Code("") }

func TestStoreOptions(t *testing.T) {
	shared, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	for _, opts := range []channel.Options{
		{Store: shared, Name: "a/b"}, {Store: shared, Name: "ä"}, {Store: shared, Name: strings.Repeat("n", 65)}, {Store: shared, FailOnDisconnect: true},
	} {
		if _, err := channel.New(&opts); err == nil || !strings.HasPrefix(err.Error(), "channel: Options.") {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// Replicas are killed during all operations on the store, which may or may not have had an effect.
// No call is approved without a yes, and no yes approves two calls.
func TestKilledReplicas(t *testing.T) {
	kills := 1000
	if testing.Short() {
		kills = 100
	}
	sharing(t, 3, func(t *testing.T, shared store.Store, replicas []*replica) {
		var mu sync.Mutex
		said := make(map[string]map[string]bool) // ids of the requests with a yes, by arguments
		random := rand.New(rand.NewPCG(1, 2))
		clients := make([]*channel.Client, len(replicas))
		dial := func(i int) {
			r := replicas[i]
			var err error
			clients[i], err = channel.Dial(t.Context(), address, func(ctx context.Context, p *approval.Prompt) {
				mu.Lock()
				if said[string(p.Arguments)] == nil {
					said[string(p.Arguments)] = make(map[string]bool)
				}
				said[string(p.Arguments)][p.ID] = true
				mu.Unlock()
				_ = p.Accept(ctx) // another one may have been faster
			}, &channel.ClientOptions{
				Token: r.Token(), Logger: quiet(), Once: true,
				HTTPClient: &http.Client{Transport: &http.Transport{DialContext: r.network.DialContext}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range replicas {
			dial(i)
		}
		defer func() {
			for _, c := range clients {
				c.Close()
			}
		}()
		killed, calls := 0, 0
		for ; killed < kills; calls++ {
			arguments := numbered("", calls).Arguments
			executed := 0
			for attempt := 0; ; attempt++ {
				if attempt == 100 {
					t.Fatalf("call %d is never approved", calls)
				}
				replicas[random.IntN(3)].killAt(1+random.IntN(10), random.IntN(2) == 0)
				r := replicas[random.IntN(3)]
				v := <-r.askWith(t.Context(), numbered(fmt.Sprintf("call-%d-%d", calls, attempt), calls))
				if v.err == nil && v.answer.Approved {
					executed++
				}
				heard := v.err == nil && r.killed.Err() == nil
				synctest.Wait()
				for i, r := range replicas {
					if r.killed.Err() != nil {
						killed++
						clients[i].Close()
						r.end(true)
						replicas[i] = startReplica(t, shared, "anna")
						dial(i)
					}
				}
				if heard {
					break
				}
			}
			mu.Lock()
			if n := len(said[string(arguments)]); executed < 1 || executed > n {
				t.Errorf("call %d was executed %d times with %d approvals", calls, executed, n)
			}
			mu.Unlock()
		}
		t.Logf("%d calls, %d kills", calls, killed)
	})
}
