package era_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A slowSink waits before it saves a state.
type slowSink struct {
	proceed  chan struct{}
	saved    []string
	notified int
}

func (s *slowSink) Notify(context.Context, string, jsonrpc.Appender) error {
	s.notified++
	return nil
}

func (s *slowSink) Save(_ context.Context, state json.RawMessage) {
	<-s.proceed
	s.saved = append(s.saved, string(state))
}

// TestTaskStoreIsSlow: a call reports progress while the store saves its state.
func TestTaskStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req, err := jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodToolsCall, json.RawMessage(`{"name":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		sink := &slowSink{proceed: make(chan struct{})}
		call, err := era.NewTaskCall(t.Context(), "t1", req, &mcp.Caller{Version: mcp.Version20260728}, json.RawMessage("{}"), nil, sink)
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		go call.Store("a", json.RawMessage("1"))
		synctest.Wait()
		notified := make(chan error, 1)
		go func() {
			notified <- call.Notify(t.Context(), mcp.NotificationProgress, &mcp.ProgressParams{Progress: 1})
		}()
		synctest.Wait()
		if len(notified) != 1 || sink.notified != 1 {
			t.Error("progress waits for the store")
		}
		close(sink.proceed)
		synctest.Wait()
		if err := <-notified; err != nil {
			t.Error(err)
		}
		call.Store("b", json.RawMessage("2"))
		if want := []string{`{"kept":{"a":1}}`, `{"kept":{"a":1,"b":2}}`}; !slices.Equal(sink.saved, want) {
			t.Errorf("the saved states are %q, want %q", sink.saved, want)
		}
	})
}
