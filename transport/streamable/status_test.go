package streamable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A checkedStore is a store whose Create can fail.
type checkedStore struct {
	store.Store
	creations atomic.Int32
	fail      atomic.Pointer[func(ctx context.Context) error]
}

func (c *checkedStore) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	c.creations.Add(1)
	if fail := c.fail.Load(); fail != nil {
		return 0, (*fail)(ctx)
	}
	return c.Store.Create(ctx, key, value, ttl)
}

type storeAnswer struct {
	Store, Error string
	LastReached  time.Time
	code         int
}

func storeStatusOf(t *testing.T, handler http.Handler) (answer storeAnswer) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	answer.code = w.Code
	return answer
}

func TestStoreStatus(t *testing.T) {
	for _, test := range []struct {
		name  string
		fail  func(ctx context.Context) error
		state string
		said  string
	}{
		{"works", nil, "reachable", ""},
		{"away", func(context.Context) error { return errors.New("connection refused") }, "unreachable", "connection refused"},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "unreachable", "no answer within 2s"},
		{"full", func(context.Context) error { return fmt.Errorf("%w: no space", store.ErrFull) }, "full", "no space"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, err := store.NewMemory(nil)
				if err != nil {
					t.Fatal(err)
				}
				defer memory.Close()
				shared := &checkedStore{Store: memory}
				handler := streamable.StoreStatus(server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{Store: shared}))
				began := time.Now()
				if got := storeStatusOf(t, handler); got.Store != "reachable" || got.code != http.StatusOK || !got.LastReached.Equal(began) {
					t.Errorf("at the beginning: %+v", got)
				}
				<-time.After(time.Minute)
				code := http.StatusOK
				if test.fail != nil {
					shared.fail.Store(&test.fail)
					code = http.StatusServiceUnavailable
				}
				shared.creations.Store(0)
				asked := time.Now()
				var asking sync.WaitGroup
				for range 100 {
					asking.Go(func() {
						got := storeStatusOf(t, handler)
						if got.Store != test.state || got.code != code || !strings.Contains(got.Error, test.said) {
							t.Errorf("the answer is %+v, want %s with %q", got, test.state, test.said)
						}
						if test.fail != nil && !got.LastReached.Equal(began) {
							t.Errorf("the store was reached at %v, want %v", got.LastReached, began)
						}
					})
				}
				asking.Wait()
				if n, took := shared.creations.Load(), time.Since(asked); n != 1 || took > 2*time.Second {
					t.Errorf("%d checks took %v, want 1 in 2 s", n, took)
				}
				shared.fail.Store(nil)
				<-time.After(time.Second)
				if got := storeStatusOf(t, handler); got.Store != "reachable" || got.code != http.StatusOK {
					t.Errorf("when the store works again: %+v", got)
				}
			})
		})
	}
}

// A server without a store has its state in memory.
func TestStatusWithoutStore(t *testing.T) {
	handler := streamable.StoreStatus(server.New(mcp.Implementation{Name: "s", Version: "1"}, nil))
	if got := storeStatusOf(t, handler); got.Store != "reachable" || got.code != http.StatusOK {
		t.Errorf("the answer is %+v", got)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/status", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST gets status %d", w.Code)
	}
}
