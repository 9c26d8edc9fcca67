package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

func ignore(context.Context, Delivery) error { return nil }

// registered returns registrations with an id.
func registered(t *testing.T, r *Receiver, n int, id string) []*Registration {
	t.Helper()
	var list []*Registration
	for range n {
		g, err := r.Register(ignore)
		if err == nil {
			err = g.Bind(id)
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
	}
	return list
}

// A receiver counts and finds its registrations, whatever is done with others at the same time.
func TestRegistrationsConcurrently(t *testing.T) {
	const n = maxUnbound / 4
	r, err := New(&Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	fixed := registered(t, r, 1, "sub")[0]
	rotated := registered(t, r, 1, "other")[0]
	closed, bound, answered := registered(t, r, n, "sub"), registered(t, r, n, "sub"), registered(t, r, n, "sub")
	body := []byte(`{"data":{}}`)
	header := http.Header{}
	if err := signature.Sign(header, []webhook.Secret{fixed.secret}, "evt", time.Now(), body); err != nil {
		t.Fatal(err)
	}
	var taken [2]int
	register := func(i int) func(int) {
		return func(round int) { // both want the same targets
			if _, err := r.register(ignore, target{event: fmt.Sprint(round)}); err == nil {
				taken[i]++
			}
		}
	}
	secrets := map[string]bool{}
	racetest.Together(n,
		register(0),
		register(1),
		func(round int) { closed[round].Close() },
		func(round int) { closed[round].Close() },
		func(round int) {
			if err := bound[round].Bind("another"); err != nil {
				t.Errorf("Bind: %v", err)
			}
		},
		func(round int) {
			if err := r.answer(httptest.NewRecorder(), answered[round], "third", "challenge"); err != nil {
				t.Errorf("answer: %v", err)
			}
		},
		func(int) {
			if !r.expects("sub", 1) {
				t.Error("a delivery for a registration is not expected")
			}
		},
		func(int) {
			if g, err := r.authenticate("sub", header, body); g != fixed {
				t.Errorf("the delivery is not from the registration that signed it: %v", err)
			}
		},
		func(round int) {
			if !r.isBound(fixed, "sub") || r.isBound(answered[round], "another") {
				t.Error("a registration does not have its id")
			}
		},
		func(int) { secrets[rotated.Rotate()] = true },
		func(int) { rotated.Secret() },
	)
	if !secrets[rotated.Secret()] || len(secrets) != n {
		t.Errorf("%d secrets of %d rotations; the last one is among them: %t", len(secrets), n, secrets[rotated.Secret()])
	}
	if got, want := r.count, 2+2*n+n; got != want || taken[0]+taken[1] != n || len(r.targets) != n || len(r.unbound) != n {
		t.Errorf("%d registrations, want %d; %d and %d of them have %d targets, want %d; %d have no id",
			got, want, taken[0], taken[1], len(r.targets), n, len(r.unbound))
	}
	for id, want := range map[string]int{"sub": 1, "other": 1, "another": n, "third": n} {
		if got := len(r.bound[id]); got != want {
			t.Errorf("%d registrations have the id %q, want %d", got, id, want)
		}
	}
}

// Deliveries, refreshes and the program use a subscription at the same time. The first reason for its end
// is kept.
func TestSubscriptionConcurrently(t *testing.T) {
	const n = 200
	r, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Subscription{registration: registered(t, r, 1, "sub0")[0], cancel: func() {}}
	handle := s.handler(ignore)
	cursor := func(i int) *string { return new(fmt.Sprint("cursor", i)) }
	reasons := []error{errors.New("the first reason"), errors.New("another reason")}
	var seen error
	racetest.Together(n,
		func(round int) {
			if err := handle(t.Context(), Delivery{Type: Event, Cursor: cursor(round)}); err != nil {
				t.Error(err)
			}
		},
		func(int) { s.Cursor() },
		func(int) { s.ID() },
		func(round int) {
			if _, err := s.follow(t.Context(), json.RawMessage(fmt.Sprintf(`{"id":"sub%d","cursor":null}`, round))); err != nil {
				t.Errorf("follow: %v", err)
			}
		},
		func(int) {
			err := s.Err()
			if seen != nil && err != seen {
				t.Errorf("the reason is %v, and was %v", err, seen)
			}
			seen = err
		},
		func(int) { s.end(reasons[0]) },
		func(int) { s.end(reasons[1]) },
	)
	if id, want := s.ID(), fmt.Sprint("sub", n-1); id != want || s.Cursor() != *cursor(n - 1) {
		t.Errorf("the id is %q and the cursor %q, want %q and %q", id, s.Cursor(), want, *cursor(n - 1))
	}
	ended := &Subscription{cancel: func() {}}
	refused := &jsonrpc.Error{Code: jsonrpc.InternalError}
	racetest.Together(n, func(int) { ended.end(refused) }, func(int) { _ = ended.Err() })
	if ended.Err() != refused {
		t.Errorf("the reason is %v, want %v", ended.Err(), refused)
	}
}
