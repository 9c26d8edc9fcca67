package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// statusTimeout bounds a check of a store.
	statusTimeout = 2 * time.Second
	// statusAge is how long the result of a check is valid.
	statusAge = time.Second
)

// StoreStatus returns a handler that says whether the store of a server can be used now, for operators
// and their monitoring. It is not for the readiness of a replica: most calls need no store. Serve it behind
// authentication, for example in the mux of [ServeOptions].Other: its errors contain addresses.
//
// It answers GET with JSON, and with status 200 if the store can be used and 503 if not:
//
//	{"store":"reachable","lastReached":"2026-11-28T10:00:00Z"}
//	{"store":"unreachable","lastReached":"2026-11-28T10:00:00Z","error":"no answer within 2s"}
//
// store is "full" if the store has no room. lastReached is the end of the last check that has succeeded, and absent
// before the first. A check writes a small value that expires after a second. It takes at most 2 seconds, and there is
// at most one check in a second, which answers all requests. A server without a store, or without the method
// Store that [Handler] describes, has its state in memory: its store is "reachable".
func StoreStatus(server transport.Binder) http.Handler {
	s := &storeStatus{checking: make(chan struct{}, 1)}
	if server, ok := server.(storeProvider); ok {
		s.store = server.Store()
	}
	return s
}

// A storeStatus is the result of the last check of a store.
type storeStatus struct {
	store store.Store // nil if the store is private to one process

	checking chan struct{} // has a value while a check runs, and guards what follows
	checked  time.Time     // the end of the last check
	reached  time.Time     // the end of the last check that has succeeded
	err      error         // of the last check
}

// ServeHTTP answers a request, after a check if the last one is too old.
func (s *storeStatus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	reached, err := s.check(r.Context())
	answer := struct {
		Store       string    `json:"store"`
		LastReached time.Time `json:"lastReached,omitzero"`
		Error       string    `json:"error,omitempty"`
	}{Store: "reachable", LastReached: reached}
	status := http.StatusOK
	if err != nil {
		answer.Store, answer.Error, status = "unreachable", err.Error(), http.StatusServiceUnavailable
	}
	if errors.Is(err, store.ErrFull) {
		answer.Store = "full"
	}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // it fails if the client has disconnected
}

// check returns when the store was last reached, and the error of the last check.
func (s *storeStatus) check(ctx context.Context) (reached time.Time, err error) {
	s.checking <- struct{}{} // it waits for one check at most, whose result is then new
	defer func() { <-s.checking }()
	if time.Since(s.checked) < statusAge {
		return s.reached, s.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout) // other requests wait for it
	defer cancel()
	s.err = nil
	if s.store != nil {
		s.err = store.Check(ctx, s.store)
	}
	if errors.Is(s.err, context.DeadlineExceeded) {
		s.err = fmt.Errorf("no answer within %v", statusTimeout)
	}
	s.checked = time.Now()
	if s.err == nil {
		s.reached = s.checked
	}
	return s.reached, s.err
}
