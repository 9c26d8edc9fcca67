package frontend

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/seats"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure a [Frontend]. Of the limits, 0 means the default.
type Options struct {
	// Access wraps a handler, so that it gets the requests only that are admitted.
	Access func(http.Handler) http.Handler
	// CallTimeout bounds a call, not counting the time spent waiting for a person. Default
	// 5 minutes.
	CallTimeout time.Duration
	// MaxBody is the size of the longest body of a request, in bytes. Default 4 MiB.
	MaxBody int64
	// MaxRequests is the number of requests served at a time, and MaxPerCaller how many of
	// them may be of one principal. Defaults 1024 and 256.
	MaxRequests, MaxPerCaller int
	// Logger takes errors that callers do not learn.
	Logger *slog.Logger
}

// A Frontend admits and counts requests. Its methods may be called concurrently.
type Frontend struct {
	opts  Options
	seats *seats.Seats
	idle  chan struct{} // closed when no request is served and none will be

	mu      sync.Mutex
	serving int
	closed  bool
}

// New returns a frontend that serves nothing yet.
func New(opts Options) *Frontend {
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 5*time.Minute)
	opts.MaxBody = cmp.Or(opts.MaxBody, 4<<20)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	return &Frontend{
		opts: opts, seats: seats.New(cmp.Or(opts.MaxRequests, 1024), cmp.Or(opts.MaxPerCaller, 256)),
		idle: make(chan struct{}),
	}
}

// Handler returns a handler that passes on the requests that are admitted, as long as there
// are not too many. The others are answered in the form of reject.
func (f *Frontend) Handler(reject Reject, serve http.HandlerFunc) http.Handler {
	admitted := f.opts.Access(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t, ok := w.(*translated); ok {
			w = t.ResponseWriter
		}
		if !f.begin() {
			reject.Unread(w, r, http.StatusServiceUnavailable, "the gateway is shutting down")
			return
		}
		defer f.end()
		principal := transport.Principal(r.Context())
		if f.seats.Take(principal) != nil {
			w.Header().Set("Retry-After", "1")
			reject.Unread(w, r, http.StatusServiceUnavailable, "busy: too many requests are being served")
			return
		}
		defer f.seats.Leave(principal)
		serve(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted.ServeHTTP(&translated{ResponseWriter: w, reject: reject}, r)
	})
}

// Body reads the body of a request. If ok is false, the request has been answered.
func (f *Frontend) Body(w http.ResponseWriter, r *http.Request, reject Reject) (body []byte, ok bool) {
	return edge.ReadJSON(&translated{ResponseWriter: w, reject: reject}, r, f.opts.MaxBody)
}

// Timeout returns a context that ends when a call has taken too long.
func (f *Frontend) Timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return deadline.With(ctx, f.opts.CallTimeout, context.DeadlineExceeded)
}

// log logs what callers do not learn, and returns the reference that they get.
func (f *Frontend) log(message string, err error) (reference string) {
	reference = rand.Text()
	f.opts.Logger.Error(message, "error", err, "reference", reference)
	return reference
}

// Shutdown rejects later requests, with status 503, and returns when those that are served
// have been answered, or with the cause of ctx when it ends. It may be called more than once.
func (f *Frontend) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		if f.serving == 0 {
			close(f.idle)
		}
	}
	f.mu.Unlock()
	select {
	case <-f.idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *Frontend) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.serving++
	return true
}

func (f *Frontend) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.serving--; f.closed && f.serving == 0 {
		close(f.idle)
	}
}
