package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport"
)

const (
	// liveTimeout is how long a server that works may take for a request of its own, also on a machine with too much to do.
	liveTimeout = 15 * time.Second
	// scrapeTimeout is the same for metrics, for which Prometheus waits 10 s.
	scrapeTimeout = 5 * time.Second
	// logTimeout is how long a write to standard error may take.
	logTimeout = 4 * time.Second
	// liveAge is how long the answer to such a request is valid.
	liveAge = time.Second
)

// A liveness knows whether the program is wedged: whether requests are not answered, or cannot be logged.
type liveness struct {
	server transport.Binder
	stderr *timedWriter

	asking chan struct{} // has a value while a request runs, and guards what follows
	asked  time.Time     // the end of the last request
	silent bool          // it was not answered in time
}

func newLiveness(server transport.Binder, stderr *timedWriter) *liveness {
	return &liveness{server: server, stderr: stderr, asking: make(chan struct{}, 1)}
}

// isWedged reports whether the program is wedged: whether a request is not answered within a time, which is at most liveTimeout. It does
// not take longer.
func (l *liveness) isWedged(ctx context.Context, within time.Duration) bool {
	if l.stderr.blocked() > logTimeout {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	select {
	case l.asking <- struct{}{}: // the answer to the request of another probe is new
	case <-ctx.Done():
		return true
	}
	defer func() { <-l.asking }()
	if time.Since(l.asked) > liveAge {
		silent := l.ask(ctx)
		if silent && within < liveTimeout { // a probe with more time may find that it works
			return true
		}
		l.silent, l.asked = silent, time.Now()
	}
	return l.silent
}

// ask makes a request as clients make it, and reports whether it was not answered in time. Any answer is one: a program that ends
// refuses requests.
func (l *liveness) ask(ctx context.Context) bool {
	answered := make(chan error, 1)
	go func() { answered <- l.ping(ctx) }()
	select {
	case err := <-answered:
		return errors.Is(err, context.DeadlineExceeded)
	case <-ctx.Done(): // the goroutine of a wedged server may not end
		return true
	}
}

func (l *liveness) ping(ctx context.Context) error {
	session, err := client.Connect(ctx, transport.Pipe(l.server), &client.Options{Era: client.Modern})
	if err != nil {
		return err
	}
	return errors.Join(session.Ping(ctx), session.Close())
}

// ServeHTTP answers a probe. It has no details, needs no token and accepts every Host, since an orchestrator sends an address.
func (l *liveness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.isWedged(r.Context(), liveTimeout) {
		http.Error(w, "this program does not work", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// A timedWriter knows for how long writes have not returned.
type timedWriter struct {
	out io.Writer

	mu      sync.Mutex
	writing int
	since   time.Time // no write has begun or returned
}

func (w *timedWriter) Write(p []byte) (int, error) {
	w.count(1)
	defer w.count(-1)
	return w.out.Write(p)
}

// Unwrap is for the width of the terminal.
func (w *timedWriter) Unwrap() io.Writer { return w.out }

func (w *timedWriter) count(more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing == 0 || more < 0 { // a later write does not make a blocked one newer
		w.since = time.Now()
	}
	w.writing += more
}

// blocked returns for how long no write has returned, and 0 if there is none.
func (w *timedWriter) blocked() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing == 0 {
		return 0
	}
	return time.Since(w.since)
}
