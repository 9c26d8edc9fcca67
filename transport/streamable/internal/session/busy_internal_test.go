package session

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A full handler has no room for the state of a session.
type full struct{ stateful }

var errFull = &jsonrpc.Error{Code: jsonrpc.Busy, Message: "no room for the session"}

func (f *full) Bind(transport.Link) jsonrpc.Handler { return f }

func (f *full) SetState(context.Context, json.RawMessage, bool) error { return errFull }

// A handler without room is busy. That is no failure of the store.
func TestHandlerIsFull(t *testing.T) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	var log strings.Builder
	limits := transport.Limits{}.WithDefaults()
	handler := &full{stateful{state: json.RawMessage("0")}}
	all, err := New(Config{Server: handler, Store: memory, Quota: quota.NewEndpoint(&limits), Limits: limits, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	s := newSession(all, "session", "", "")
	defer s.close()
	s.version = mcp.Version20251125
	if err := s.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = s.UpdateState(t.Context(), func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage("1"), nil })
	if !errors.Is(err, errFull) {
		t.Errorf("UpdateState: %v, want %v", err, errFull)
	}
	r, w := httptest.NewRequest(http.MethodDelete, "/", nil), httptest.NewRecorder()
	r.Header.Set("Mcp-Session-Id", "session")
	all.Delete(w, r)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), errFull.Message) {
		t.Errorf("restoring answered with %d %v %s", w.Code, w.Header(), w.Body)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}
