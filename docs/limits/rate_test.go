package limits_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A rate permits each caller burst calls of tools at once, and one more after each interval.
type rate struct {
	burst    int
	interval time.Duration

	mu   sync.Mutex
	next map[key]time.Time // when a caller may make burst calls at once again
}

// maxCallers is how many callers a rate remembers. While none of them can be forgotten, it makes new ones wait.
const maxCallers = 10_000

// A key tells callers apart: by their principal, or without one by their network. Both are "" over stdio.
type key struct{ principal, network string }

// wait counts a call, or returns how long the caller must wait.
func (r *rate) wait(caller *mcp.Caller) time.Duration {
	k := key{principal: caller.Principal}
	if k.principal == "" {
		k.network = caller.Network
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	next, known := r.next[k]
	if !known && len(r.next) >= maxCallers {
		maps.DeleteFunc(r.next, func(_ key, at time.Time) bool { return !at.After(now) })
		if len(r.next) >= maxCallers {
			return r.interval
		}
	}
	if next.Before(now) {
		next = now
	}
	next = next.Add(r.interval)
	if wait := next.Sub(now) - time.Duration(r.burst)*r.interval; wait > 0 {
		return wait
	}
	r.next[k] = next
	return 0
}

// limit is the middleware. The result of a refused call is for the model, which can wait.
func (r *rate) limit(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if call.Method() != mcp.MethodToolsCall {
			return next(ctx, call)
		}
		if wait := r.wait(call.Caller); wait > 0 {
			text := fmt.Sprintf("too many calls: repeat the call in %v", wait.Round(time.Millisecond))
			return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(text)}, IsError: true}, nil
		}
		return next(ctx, call)
	}
}

func newServer() *server.Server {
	calls := &rate{burst: 5, interval: time.Second, next: make(map[key]time.Time)}
	s := server.New(mcp.Implementation{Name: "echo", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{calls.limit},
	})
	server.AddTool(s, server.Tool{Name: "ping"}, func(context.Context, *server.Request, struct{}) (string, error) { return "pong", nil })
	return s
}

// Each caller has its own calls, in every mode, and gets them back with time.
func TestRate(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			ada := servertest.Connect(t, s, &servertest.Options{Mode: mode, Principal: "ada"})
			bob := servertest.Connect(t, s, &servertest.Options{Mode: mode, Principal: "bob"})
			ping := func(as string) string {
				session := ada
				if as == "bob" {
					session = bob
				}
				result, err := session.CallTool(t.Context(), "ping", nil, nil)
				if err != nil {
					t.Fatalf("%s: %v", as, err)
				}
				return result.Text()
			}
			for range 5 {
				if got := ping("ada"); got != "pong" {
					t.Errorf("ada got %q within the limit", got)
				}
			}
			if got := ping("ada"); !strings.HasPrefix(got, "too many calls: repeat the call in 1s") {
				t.Errorf("ada got %q beyond the limit", got)
			}
			if got := ping("bob"); got != "pong" {
				t.Errorf("bob got %q, and has made no call before", got)
			}
			<-time.After(time.Second) // the time of the bubble
			if got := ping("ada"); got != "pong" {
				t.Errorf("ada got %q after an interval", got)
			}
		})
	})
}

// Callers that come and go take bounded memory, and those that are known can go on.
func TestRateRemembersFewCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rate{burst: 5, interval: time.Second, next: make(map[key]time.Time)}
		for i := range 2 * maxCallers {
			if wait := r.wait(&mcp.Caller{Network: fmt.Sprint(i)}); (wait > 0) != (i >= maxCallers) {
				t.Fatalf("caller %d waits %v", i, wait)
			}
		}
		if wait := r.wait(&mcp.Caller{Network: "0"}); wait > 0 || len(r.next) != maxCallers {
			t.Errorf("a known caller waits %v, and %d are remembered", wait, len(r.next))
		}
		<-time.After(2 * time.Second)
		if wait := r.wait(&mcp.Caller{Network: "new"}); wait > 0 || len(r.next) != 1 {
			t.Errorf("when all may be forgotten, a new caller waits %v, and %d are remembered", wait, len(r.next))
		}
	})
}
