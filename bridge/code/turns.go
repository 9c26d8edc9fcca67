package code

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/dovetail-go/dovetail/internal/quota"
)

// turns decide which scripts compute. While all turns are taken, one script of each client waits for the next one, and further
// scripts of a client wait for that: a client with many scripts does not keep others waiting.
type turns struct {
	all *semaphore.Weighted

	mu      sync.Mutex
	clients map[quota.Holder]*queue
}

// A queue has the scripts of one client that wait.
type queue struct {
	first   *semaphore.Weighted // of the script that waits for a turn
	waiting int
}

func newTurns(n int) *turns {
	return &turns{all: semaphore.NewWeighted(int64(n)), clients: make(map[quota.Holder]*queue)}
}

// take waits for a turn. The caller gives it back. The error is the cause of the end of ctx.
func (t *turns) take(ctx context.Context, client quota.Holder) error {
	if t.all.TryAcquire(1) { // fails while others wait
		return nil
	}
	q := t.join(client)
	defer t.leave(client, q)
	if q.first.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer q.first.Release(1)
	if t.all.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (t *turns) giveBack() { t.all.Release(1) }

func (t *turns) join(client quota.Holder) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.clients[client]
	if q == nil {
		q = &queue{first: semaphore.NewWeighted(1)}
		t.clients[client] = q
	}
	q.waiting++
	return q
}

func (t *turns) leave(client quota.Holder, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.waiting--; q.waiting == 0 {
		delete(t.clients, client)
	}
}
