package streamable_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// An interruptedStore calls a function before its next update.
type interruptedStore struct {
	store.Store
	before atomic.Pointer[func(context.Context)]
}

func (s *interruptedStore) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if before := s.before.Swap(nil); before != nil {
		(*before)(ctx)
	}
	return s.Store.Update(ctx, key, value, revision, ttl)
}

// TestEndOfSessionIsNoError: a client that ends its session while a replica stores a change of it is no failure of the
// store, and is not logged as one.
func TestEndOfSessionIsNoError(t *testing.T) {
	for _, ending := range []string{"at the same replica", "at another replica"} {
		t.Run(ending, func(t *testing.T) {
			var log bytes.Buffer // read after the request, which is the only one that logs
			shared := newStore(t)
			interrupted := &interruptedStore{Store: shared}
			first := serve(t, sharing{newBookServer(), interrupted}, &streamable.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
			second := serve(t, sharing{newBookServer(), shared}, &streamable.Options{Logger: quiet})
			s := first.open(mcp.Version20251125)
			var ended sync.WaitGroup
			end := func(ctx context.Context) {
				ended.Go(func() { s.send(t.Context(), http.MethodDelete, "") }) // it waits for the request
				<-ctx.Done()
			}
			if ending == "at another replica" {
				end = func(context.Context) {
					second.with("Mcp-Session-Id", s.headers["Mcp-Session-Id"]).send(t.Context(), http.MethodDelete, "")
				}
			}
			interrupted.before.Store(&end)
			s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"book:1"}}`)
			ended.Wait()
			if interrupted.before.Load() != nil {
				t.Error("no change was stored")
			}
			if log.Len() > 0 {
				t.Errorf("logged is %s", &log)
			}
		})
	}
}
