package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	shared "github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const occurrence = `{"eventId":"evt_1","name":"incident.created","timestamp":"2026-02-19T16:00:00Z","data":{"id":1},"cursor":"c1"}`

func newReceiver(t testing.TB, opts webhook.Options) *webhook.Receiver {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	r, err := webhook.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A recorder is a handler that records deliveries and returns err.
type recorder struct {
	got []webhook.Delivery
	err error
}

func (r *recorder) handle(_ context.Context, d webhook.Delivery) error {
	r.got = append(r.got, d)
	return r.err
}

func register(t testing.TB, r *webhook.Receiver, handle webhook.Handler, id string) *webhook.Registration {
	t.Helper()
	g, err := r.Register(handle)
	if err != nil {
		t.Fatal(err)
	}
	if id != "" {
		if err := g.Bind(id); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// signed returns a signed delivery.
func signed(t testing.TB, secret, subscription, id, body string) *http.Request {
	t.Helper()
	key, err := shared.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(shared.SubscriptionHeader, subscription)
	if err := signature.Sign(req.Header, []shared.Secret{key}, id, time.Now(), []byte(body)); err != nil {
		t.Fatal(err)
	}
	return req
}

func serve(r *webhook.Receiver, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func TestDeliveries(t *testing.T) {
	for _, test := range []struct {
		name, body string
		change     func(*http.Request)
		status     int
		handled    bool
		check      func(d webhook.Delivery) bool
	}{
		{"event", occurrence, nil, 200, true, func(d webhook.Delivery) bool {
			return d.Type == webhook.Event && string(d.Body) == occurrence && *d.Cursor == "c1" && d.ID == "evt_1" && d.Subscription == "sub_1"
		}},
		{"with parameters of the type", occurrence, func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, 200, true, nil},
		{"without cursor", `{"eventId":"evt_1","data":{}}`, nil, 200, true, func(d webhook.Delivery) bool { return d.Cursor == nil }},
		{"null cursor", `{"eventId":"evt_1","data":{},"cursor":null}`, nil, 200, true, func(d webhook.Delivery) bool { return d.Cursor == nil }},
		{"gap", `{"type":"gap","cursor":"c2"}`, nil, 200, true, func(d webhook.Delivery) bool { return d.Type == webhook.Gap && *d.Cursor == "c2" }},
		{"terminated", `{"type":"terminated","error":{"code":-32024,"message":"Forbidden"}}`, nil, 200, true, func(d webhook.Delivery) bool {
			return d.Type == webhook.Terminated && d.Error.Code == -32024
		}},
		{"unknown type", `{"type":"later"}`, nil, 200, false, nil},
		{"GET", occurrence, func(r *http.Request) { r.Method = http.MethodGet }, 405, false, nil},
		{"form", occurrence, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, false, nil},
		{"no subscription", occurrence, func(r *http.Request) { r.Header.Del(shared.SubscriptionHeader) }, 400, false, nil},
		{"no signature", occurrence, func(r *http.Request) { r.Header.Del("Webhook-Signature") }, 400, false, nil},
		{"two timestamps", occurrence, func(r *http.Request) { r.Header.Add("Webhook-Timestamp", "1") }, 400, false, nil},
		{"old", occurrence, func(r *http.Request) { r.Header.Set("Webhook-Timestamp", "1771516800") }, 400, false, nil},
		{"another id", occurrence, func(r *http.Request) { r.Header.Set("Webhook-Id", "evt_2") }, 401, false, nil},
		{"unknown subscription", occurrence, func(r *http.Request) { r.Header.Set(shared.SubscriptionHeader, "sub_2") }, 503, false, nil},
		{"not JSON", `{"eventId":`, nil, 400, false, nil},
		{"two types", `{"type":"gap","type":"terminated"}`, nil, 400, false, nil},
		{"type is no string", `{"type":1}`, nil, 400, false, nil},
		{"no data", `{"eventId":"evt_1"}`, nil, 400, false, nil},
		{"cursor is no string", `{"eventId":"evt_1","data":{},"cursor":1}`, nil, 400, false, nil},
		{"terminated without error", `{"type":"terminated"}`, nil, 400, false, nil},
		{"too long", `{"data":{},"x":"` + strings.Repeat("x", 2000) + `"}`, nil, 413, false, nil},
		{"too long without length", `{"data":{},"x":"` + strings.Repeat("x", 2000) + `"}`, func(r *http.Request) { r.ContentLength = -1 }, 413, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, h := newReceiver(t, webhook.Options{MaxBody: 1000}), &recorder{}
			g := register(t, r, h.handle, "sub_1")
			req := signed(t, g.Secret(), "sub_1", "evt_1", test.body)
			if test.change != nil {
				test.change(req)
			}
			if w := serve(r, req); w.Code != test.status {
				t.Errorf("the status is %d (%s), want %d", w.Code, w.Body, test.status)
			}
			if (len(h.got) == 1) != test.handled {
				t.Fatalf("the handler got %+v", h.got)
			}
			if test.check != nil && !test.check(h.got[0]) {
				t.Errorf("the handler got %+v", h.got[0])
			}
		})
	}
}

func TestDuplicates(t *testing.T) {
	r, h := newReceiver(t, webhook.Options{Remember: 2}), &recorder{err: errors.New("the disk is full")}
	g := register(t, r, h.handle, "sub_1")
	send := func(id string, status, handled int) {
		t.Helper()
		w := serve(r, signed(t, g.Secret(), "sub_1", id, occurrence))
		if w.Code != status || len(h.got) != handled {
			t.Errorf("%s: status %d, handled %d times; want %d and %d", id, w.Code, len(h.got), status, handled)
		}
		if (w.Header().Get("Retry-After") != "") != (status == 503) {
			t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
		}
	}
	send("evt_1", 503, 1)
	h.err = nil
	send("evt_1", 200, 2)
	send("evt_1", 200, 2)
	send("evt_2", 200, 3)
	send("evt_3", 200, 4)
	send("evt_3", 200, 4)
	send("evt_1", 200, 5) // only two ids are remembered
}

// The first challenge arrives before the id of the subscription is known.
func TestChallenges(t *testing.T) {
	r, h := newReceiver(t, webhook.Options{}), &recorder{}
	other := register(t, r, h.handle, "")
	g := register(t, r, h.handle, "")
	const body = `{"type":"verification","challenge":"nonce"}`
	check := func(req *http.Request, status int) {
		t.Helper()
		w := serve(r, req)
		if w.Code != status || (status == 200) != (w.Body.String() == `{"challenge":"nonce"}`) {
			t.Errorf("the answer is %d %s, want %d", w.Code, w.Body, status)
		}
	}
	check(signed(t, shared.NewSecret().Text(), "sub_1", "msg_verification_1", body), 503)
	check(signed(t, g.Secret(), "sub_1", "evt_1", occurrence), 503) // an event does not bind
	check(signed(t, g.Secret(), "sub_1", "msg_verification_1", body), 200)
	check(signed(t, g.Secret(), "sub_1", "msg_verification_1", body), 200)
	check(signed(t, shared.NewSecret().Text(), "sub_1", "msg_verification_2", body), 401)
	check(signed(t, g.Secret(), "sub_1", "msg_verification_3", `{"type":"verification"}`), 400)
	if w := serve(r, signed(t, g.Secret(), "sub_1", "evt_1", occurrence)); w.Code != 200 || len(h.got) != 1 {
		t.Errorf("after the challenge: %d, %+v", w.Code, h.got)
	}
	if err := g.Bind("sub_1"); err != nil {
		t.Error(err)
	}
	check(signed(t, other.Secret(), "sub_2", "msg_verification_4", body+strings.Repeat(" ", 5000)), 503)
}

// Two servers may give one id to their subscriptions. Neither gets deliveries of the other accepted.
func TestServersWithOneID(t *testing.T) {
	r, a, b := newReceiver(t, webhook.Options{MaxRegistrations: 2}), &recorder{}, &recorder{}
	first, second := register(t, r, a.handle, ""), register(t, r, b.handle, "")
	const body = `{"type":"verification","challenge":"nonce"}`
	send := func(secret, id, body string, status, toFirst, toSecond int) {
		t.Helper()
		if w := serve(r, signed(t, secret, "sub_1", id, body)); w.Code != status || len(a.got) != toFirst || len(b.got) != toSecond {
			t.Errorf("%s: status %d, the handlers got %d and %d; want %d, %d and %d", id, w.Code, len(a.got), len(b.got), status, toFirst, toSecond)
		}
	}
	send(second.Secret(), "msg_verification_1", body, 200, 0, 0) // the other server is first
	send(first.Secret(), "msg_verification_2", body, 200, 0, 0)
	for _, g := range []*webhook.Registration{first, second} {
		if err := g.Bind("sub_1"); err != nil {
			t.Error(err)
		}
	}
	send(first.Secret(), "evt_1", occurrence, 200, 1, 0)
	send(second.Secret(), "evt_1", occurrence, 200, 1, 1)
	send(shared.NewSecret().Text(), "evt_2", occurrence, 401, 1, 1)
	if _, err := r.Register(a.handle); !errors.Is(err, webhook.ErrFull) {
		t.Errorf("the third registration: %v", err)
	}
	secret := second.Secret()
	second.Close()
	send(secret, "evt_3", occurrence, 401, 1, 1)
	send(first.Secret(), "evt_3", occurrence, 200, 2, 1)
	if err := first.Bind("sub_2"); err != nil {
		t.Error(err)
	}
	send(first.Secret(), "evt_4", occurrence, 503, 2, 1)
	first.Close()
	first.Close()
	register(t, r, a.handle, "sub_1")
	register(t, r, a.handle, "")
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newReceiver(t, webhook.Options{}), &recorder{}
		g := register(t, r, h.handle, "sub_1")
		first := g.Secret()
		second := g.Rotate()
		if second == first || g.Secret() != second {
			t.Errorf("the secret was not replaced")
		}
		if a, b := serve(r, signed(t, first, "sub_1", "evt_1", occurrence)), serve(r, signed(t, second, "sub_1", "evt_2", occurrence)); a.Code != 200 || b.Code != 200 {
			t.Errorf("after the rotation: %d, %d", a.Code, b.Code)
		}
		<-time.After(16 * time.Minute)
		if a, b := serve(r, signed(t, first, "sub_1", "evt_3", occurrence)), serve(r, signed(t, second, "sub_1", "evt_4", occurrence)); a.Code != 401 || b.Code != 200 {
			t.Errorf("later: %d, %d", a.Code, b.Code)
		}
	})
}

func TestReceiverLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t, webhook.Options{MaxDeliveries: 2, MaxRegistrations: 3})
		release, running, most := make(chan struct{}), 0, 0
		handle := func(context.Context, webhook.Delivery) error {
			running++
			most = max(most, running)
			<-release
			running--
			return nil
		}
		a := register(t, r, handle, "sub_1")
		register(t, r, handle, "")
		b := register(t, r, handle, "sub_2")
		if _, err := r.Register(handle); !errors.Is(err, webhook.ErrFull) {
			t.Errorf("the fourth registration: %v", err)
		}
		codes := make(chan int, 3)
		for i := range 2 { // one registration: one at a time
			go func() { codes <- serve(r, signed(t, a.Secret(), "sub_1", fmt.Sprint("evt_", i), occurrence)).Code }()
		}
		synctest.Wait()
		if w := serve(r, signed(t, b.Secret(), "sub_2", "evt_1", occurrence)); w.Code != 503 || running != 1 {
			t.Errorf("the third delivery: %d with %d handlers", w.Code, running)
		}
		closed := make(chan struct{})
		go func() { a.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close does not wait for the handler")
		default:
		}
		close(release)
		<-closed
		if x, y := <-codes, <-codes; x+y != 200+503 || most != 1 {
			t.Errorf("the deliveries were answered %d and %d; %d handlers", x, y, most)
		}
		if err := a.Bind("sub_9"); err == nil {
			t.Error("a closed registration was bound")
		}
		a.Close()
		register(t, r, handle, "").Close()
	})
}

// Deliveries of one subscription leave places for deliveries of other subscriptions.
func TestSlowSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newReceiver(t, webhook.Options{MaxDeliveries: 8}), &recorder{}
		release := make(chan struct{})
		slow := register(t, r, func(context.Context, webhook.Delivery) error {
			<-release
			return nil
		}, "sub_1")
		fast := register(t, r, h.handle, "sub_2")
		codes := make(chan int, 8)
		for i := range 8 {
			go func() { codes <- serve(r, signed(t, slow.Secret(), "sub_1", fmt.Sprint("evt_", i), occurrence)).Code }()
		}
		synctest.Wait()
		if w := serve(r, signed(t, fast.Secret(), "sub_2", "evt_1", occurrence)); w.Code != 200 || len(h.got) != 1 {
			t.Errorf("the delivery of another subscription was answered %d", w.Code)
		}
		close(release)
		handled := 0
		for range 8 {
			if <-codes == 200 {
				handled++
			}
		}
		if handled != 4 {
			t.Errorf("%d of 8 deliveries were handled, want 4", handled)
		}
	})
}

func TestInvalidOptions(t *testing.T) {
	for _, opts := range []webhook.Options{{MaxBody: 1 << 20}, {MaxBody: -1}, {Remember: -1}, {Timeout: -1}, {MaxDeliveries: -1}, {MaxRegistrations: -1}} {
		if _, err := webhook.New(&opts); err == nil {
			t.Errorf("%+v: there is no error", opts)
		}
	}
}

// No body, signed or not, ends the receiver.
func FuzzReceiver(f *testing.F) {
	for _, body := range []string{occurrence, `{"type":"gap"}`, `{"type":"verification","challenge":"x"}`, `[]`, `{"type":"terminated","error":{}}`} {
		f.Add(body, "sub_1", "evt_1")
	}
	f.Fuzz(func(t *testing.T, body, subscription, id string) {
		r, h := newReceiver(t, webhook.Options{}), &recorder{}
		g := register(t, r, h.handle, "sub_1")
		if !signature.IsID(id) {
			return
		}
		w := serve(r, signed(t, g.Secret(), subscription, id, body))
		if len(h.got) > 0 && (w.Code != 200 || subscription != "sub_1") {
			t.Errorf("a delivery for %q was answered %d", subscription, w.Code)
		}
	})
}
