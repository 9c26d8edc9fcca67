package state

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/transport/store"
)

// finishTimeout bounds an operation that ends the delivery of a job.
const finishTimeout = 5 * time.Second

// A Worker takes the jobs of a queue and does several of them at the same time. All fields are required. Its methods
// may be called concurrently, except for Work.
type Worker struct {
	Queue store.Queue
	// Name is the name of the queue.
	Name string
	// Max is how many jobs are done at the same time.
	Max int
	// Do does a job. Before it returns, it calls Finish or HandBack; otherwise the job is delivered again when its
	// lease has ended.
	Do     func(job *store.Job)
	Logger *slog.Logger
}

// Work takes jobs until ctx ends, and then waits until the taken jobs have ended. Work takes a job only when the job
// can begin immediately. While the store cannot be reached, Work tries again. Work also returns when the store is
// closed.
func (w *Worker) Work(ctx context.Context) {
	var doing sync.WaitGroup
	defer doing.Wait()
	free := make(chan struct{}, w.Max)
	var pause backoff.Backoff
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		job, err := w.Queue.Pull(ctx, w.Name)
		if err == nil {
			pause.Reset()
			doing.Go(func() {
				defer func() { <-free }()
				w.Do(job)
			})
			continue
		}
		<-free
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		w.Logger.Warn("jobs cannot be taken from the store; it is tried again", "queue", w.Name, "error", err)
		if errors.Is(err, store.ErrForged) {
			continue // the job has been removed, and the next ones must not wait for it
		}
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// Finish removes a job that was done. If that fails, the job is delivered again, and what it refers to must say that
// nothing is left to do.
func (w *Worker) Finish(job *store.Job) {
	w.end(func(ctx context.Context) error { return w.Queue.Ack(ctx, job) })
}

// HandBack makes the job be delivered again, to any replica, after a pause. If that fails, it is delivered again when
// its lease has ended.
func (w *Worker) HandBack(job *store.Job, pause time.Duration) {
	w.end(func(ctx context.Context) error { return w.Queue.Nak(ctx, job, max(pause, 0)) })
}

func (w *Worker) end(operation func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	err := operation(ctx)
	if err != nil && !errors.Is(err, store.ErrLost) && !errors.Is(err, store.ErrClosed) {
		w.Logger.Warn("the store does not know that a job has ended, and delivers it again", "queue", w.Name, "error", err)
	}
}
