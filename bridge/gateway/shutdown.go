package gateway

import (
	"context"
	"sync"
)

// Shutdown has later requests refused, with status 503, and returns when those under way have
// been answered, or with the cause of ctx when that ends. What the calls go to must run until
// then. It may be called more than once.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.requests.close()
	select {
	case <-g.requests.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// requests are those under way.
type requests struct {
	over chan struct{} // closed when there are none, and will be none

	mu     sync.Mutex
	count  int
	closed bool
}

func newRequests() *requests { return &requests{over: make(chan struct{})} }

// begin adds one, unless there are to be no more.
func (q *requests) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.count++
	return true
}

func (q *requests) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count--; q.closed && q.count == 0 {
		close(q.over)
	}
}

func (q *requests) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if q.count == 0 {
		close(q.over)
	}
}
