package approvaltests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
)

// A checkingJournal is a journal that reports each execution without an approval that is in time
// and unused.
type checkingJournal struct {
	mu       sync.Mutex
	requests map[string]*requestEvents
	wrong    []string
}

type requestEvents struct {
	digest                       approval.Digest
	deadline                     time.Time
	approved, executing, refused bool
}

func (w *checkingJournal) Append(e approval.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.requests[e.ID]
	if s == nil {
		s = &requestEvents{digest: e.Digest, deadline: e.Deadline}
		w.requests[e.ID] = s
	}
	switch e.Event {
	case "approved":
		s.approved = true
	case "rejected", "expired", "withdrawn":
		s.refused = true
	case "executing":
		if !s.approved || s.executing || s.refused || s.digest != e.Digest || !e.Time.Before(s.deadline) {
			w.wrong = append(w.wrong, fmt.Sprintf("%s is executed: %+v", e.ID, *s))
		}
		s.executing = true
	}
	return nil
}

// mayRun reports whether the tool of a request may be running.
func (w *checkingJournal) mayRun(r *approval.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.requests[r.ID]
	return s != nil && s.approved && s.executing && !s.refused && s.digest == r.Digest()
}

func (w *checkingJournal) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// races returns the number of calls of TestRaces, which DOVETAIL_RACES sets.
func (s Suite) races(t *testing.T) int {
	n := s.many(10_000)
	if text := os.Getenv("DOVETAIL_RACES"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestRaces combines simultaneous answers, deadlines, canceled calls, and calls with two
// simultaneous second runs.
func (s Suite) TestRaces(t *testing.T) {
	w := &checkingJournal{requests: map[string]*requestEvents{}}
	var answering sync.WaitGroup
	approver := approval.Callback(func(ctx context.Context, p *approval.Prompt) {
		decide := func(approved bool, after time.Duration) {
			answering.Go(func() {
				sleep(after)
				_ = p.Decide(ctx, approval.Answer{Approved: approved}) // may be late, or the second answer
			})
		}
		soon := time.Duration(rand.IntN(3)) * time.Millisecond
		switch rand.IntN(8) {
		case 0:
			decide(true, soon)
			decide(false, soon)
		case 1:
			decide(true, soon)
			decide(true, soon)
		case 2:
			decide(false, 0)
		case 3: // no answer
		case 4:
			panic("approver")
		default:
			decide(true, soon)
		}
	})
	var mu sync.Mutex
	done := map[string]int{} // executions by calls
	f := &Tool{Then: func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		r := approval.FromContext(ctx)
		if r == nil || !w.mayRun(r) || string(call.Member("arguments")) != string(r.Arguments) {
			w.fail("the tool runs with %s for %v", call.Member("arguments"), r)
		}
		if call.ID() != "" {
			if _, err := call.Input("more", mcp.InputRequest{Method: mcp.MethodElicit}); err != nil {
				return nil, err
			}
		}
		mu.Lock()
		done[string(call.Member("arguments"))]++
		mu.Unlock()
		return mcp.Raw(`{}`), nil
	}}
	var gates []mcp.Handler
	for _, expiry := range []time.Duration{2 * time.Millisecond, 4 * time.Millisecond, 20 * time.Millisecond} {
		gates = append(gates, s.gated(f, approver, &approval.Options{Expiry: expiry, Journal: w, Logger: Quiet(), MaxPerCaller: 1024}))
	}
	numbers := make(chan int)
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for n := range numbers {
				raceOne(t, gates[n%len(gates)], n)
			}
		})
	}
	for n := range s.races(t) {
		numbers <- n
	}
	close(numbers)
	callers.Wait()
	answering.Wait()
	for _, wrong := range w.wrong[:min(10, len(w.wrong))] {
		t.Error(wrong)
	}
	for arguments, times := range done {
		if times > 1 {
			t.Errorf("%s was executed %d times", arguments, times)
		}
	}
	executing := 0
	for _, s := range w.requests {
		if s.executing {
			executing++
		}
	}
	t.Logf("%d requests, %d executing, %d calls done", len(w.requests), executing, len(done))
	if len(done) == 0 || len(done) == len(w.requests) {
		t.Error("there was no race")
	}
}

// raceOne makes one call, with two simultaneous second runs if it asks.
func raceOne(t *testing.T, invoke mcp.Handler, n int) {
	ctx := t.Context()
	if n%7 == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(3))*time.Millisecond)
		defer cancel()
	}
	arguments := fmt.Sprintf(`{"n":%d}`, n)
	if n%2 == 0 {
		_, _ = invoke(ctx, NewCall(t, "anna", "write", arguments, nil)) // the journal checks it
		return
	}
	e := NewExchange(fmt.Sprint("call", n))
	_, err := invoke(ctx, NewCall(t, "anna", "write", arguments, e))
	if _, asks := mcp.AsInputRequired(err); !asks {
		return
	}
	e.Answers["more"] = json.RawMessage(`{}`)
	var twice sync.WaitGroup
	results := make([]error, 2)
	for i := range results {
		again := e.Copy()
		twice.Go(func() { _, results[i] = invoke(ctx, NewCall(t, "anna", "write", arguments, again)) })
	}
	twice.Wait()
	for _, err := range results {
		if err != nil && !errors.Is(err, approval.Spent) && !errors.Is(err, approval.Expired) && ctx.Err() == nil {
			t.Errorf("a second run failed with %v", err)
		}
	}
}
