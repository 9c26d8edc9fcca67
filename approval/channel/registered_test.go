package channel_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// TestDialRegisters: when Dial returns, requests are shown to the approver.
func TestDialRegisters(t *testing.T) {
	c, err := channel.New(&channel.Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(c)
	defer web.Close()
	defer c.Close()
	for range 200 {
		person, err := channel.Dial(t.Context(), web.URL, func(ctx context.Context, p *approval.Prompt) { _ = p.Accept(ctx) },
			&channel.ClientOptions{Token: c.Token(), Logger: quiet(), Once: true})
		if err != nil {
			t.Fatal(err)
		}
		q := &approval.Request{ID: "1", Target: approval.Target{Tool: "t"}, Arguments: json.RawMessage(`{}`), Deadline: time.Now().Add(time.Minute)}
		if a, err := c.Approve(t.Context(), q); err != nil || !a.Approved {
			t.Fatalf("asked right after Dial: %+v, %v", a, err)
		}
		person.Close()
	}
}

// TestDialWaits for another approver to go, for the channel to give up, or for its context.
func TestDialWaits(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		first := r.dial(t, func(context.Context, *approval.Prompt) {}, nil)
		handler := func(ctx context.Context, p *approval.Prompt) { _ = p.Accept(ctx) }
		start := time.Now()
		_, err := channel.Dial(t.Context(), address, handler, r.clientOptions())
		if took := time.Since(start); err == nil || !strings.Contains(err.Error(), "Timed out waiting") || took != channel.DefaultWait {
			t.Errorf("after %v: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := channel.Dial(ctx, address, handler, r.clientOptions()); err != context.DeadlineExceeded && !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
			t.Errorf("without time: %v", err)
		}
		time.AfterFunc(time.Second, func() { first.Close() })
		second := r.dial(t, handler, nil)
		defer second.Close()
		wantApproved(t, r.ask(t, "1"), true)
	})
}

// TestDialOfAnotherServer: one that agrees to the subprotocol and speaks otherwise is
// refused.
func TestDialOfAnotherServer(t *testing.T) {
	for _, frame := range []string{`{"jsonrpc":"2.0","method":"withdrawn","params":{"id":"1"}}`, `x`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire()
			upgrader := websocket.Upgrader{Subprotocols: []string{"dovetail.approval.v1"}}
			server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
				conn, err := upgrader.Upgrade(rw, q, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_ = conn.WriteMessage(websocket.TextMessage, []byte(frame))
				_, _, _ = conn.ReadMessage() // until the client has gone
			})}
			served := make(chan error)
			go func() { served <- server.Serve(w) }()
			_, err := channel.Dial(t.Context(), address, func(context.Context, *approval.Prompt) {}, &channel.ClientOptions{
				Logger: quiet(), HTTPClient: &http.Client{Transport: &http.Transport{DialContext: w.dial}},
			})
			if err == nil || !strings.Contains(err.Error(), "not registered") {
				t.Errorf("%s: %v", frame, err)
			}
			server.Close()
			<-served
			w.cut()
		})
	}
}
