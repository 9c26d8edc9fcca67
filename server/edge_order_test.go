package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newWaiter has a tool that waits until it is let go, by number, or its call ends.
func newWaiter() (s *server.Server, begun chan int, letGo []chan struct{}, ended chan int) {
	begun, ended, letGo = make(chan int, 10), make(chan int, 10), make([]chan struct{}, 5)
	for i := range letGo {
		letGo[i] = make(chan struct{})
	}
	s = newServer(nil)
	server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, in point) (int, error) {
		begun <- in.X
		defer func() { ended <- in.X }()
		select {
		case <-letGo[in.X]:
			return in.X, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	returns(s, "quick", "done")
	return s, begun, letGo, ended
}

// TestAnswersInAnyOrder: calls that are answered in another order than they came get
// their own answers, as calls one after another do.
func TestAnswersInAnyOrder(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, begun, letGo, ended := newWaiter()
		session := connect(t, s, era)
		var calls sync.WaitGroup
		for i := range letGo {
			calls.Go(func() {
				if got := texts(call(t, session, "wait", fmt.Sprintf(`{"x":%d}`, i))); got != fmt.Sprint(i) {
					t.Errorf("call %d is answered with %s", i, got)
				}
			})
		}
		for range letGo {
			<-begun
		}
		for i, one := range slices.Backward(letGo) {
			close(one)
			if got := <-ended; got != i {
				t.Errorf("call %d ends, want %d", got, i)
			}
		}
		calls.Wait()
		for i := range 10 {
			if got := texts(call(t, session, "wait", fmt.Sprintf(`{"x":%d}`, i%5))); got != fmt.Sprint(i%5) {
				t.Errorf("call %d of those one after another is answered with %s", i, got)
			}
		}
	})
}

// TestNothingWaitsForASlowCall: while a tool runs, the same connection carries other
// calls, lists and pings, and the cancellation of the call itself.
func TestNothingWaitsForASlowCall(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, begun, _, ended := newWaiter()
		session := connect(t, s, era)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, "wait", point{X: 1}, nil)
			failed <- err
		}()
		<-begun
		if got := texts(call(t, session, "quick", `{}`)); got != "done" {
			t.Errorf("the quick tool says %q", got)
		}
		if names := toolNames(t, session); len(names) != 2 {
			t.Errorf("listed are %q", names)
		}
		if era == client.Legacy {
			if _, err := raw(t, session, mcp.MethodPing, `{}`); err != nil {
				t.Errorf("a ping is answered with %v", err)
			}
		}
		cancel()
		if err := <-failed; err == nil {
			t.Error("the cancelled call succeeds")
		}
		if got := <-ended; got != 1 {
			t.Errorf("call %d ends", got)
		}
	})
}
