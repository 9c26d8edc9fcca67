package channel_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// stay connects an approver that never closes, whatever it is told, and pings until the test
// has it leave.
func (r *rig) stay(t *testing.T) (conn *websocket.Conn, leave func()) {
	t.Helper()
	d := websocket.Dialer{NetDialContext: r.wire.dial}
	conn, _, err := d.Dial(address, http.Header{"Authorization": {"Bearer " + r.Token()}})
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go io.Copy(io.Discard, conn.NetConn())
	go func() {
		defer close(stopped)
		for {
			select {
			case <-time.After(300 * time.Millisecond):
				_ = conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
			case <-stop:
				return
			}
		}
	}()
	synctest.Wait()
	return conn, func() {
		close(stop)
		<-stopped
		conn.Close()
	}
}

// TestDismissedApproverStays: with a token that is good no more it approves nothing, and what
// was before it is put before the next one.
func TestDismissedApproverStays(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		stubborn, leave := r.stay(t)
		defer leave()
		done := r.ask(t, "1")
		if err := r.SetToken("another-token-1234"); err != nil {
			t.Fatal(err)
		}
		if r.Connected() {
			t.Error("one that was sent away is the approver")
		}
		if err := stubborn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","result":true,"id":"1"}`)); err != nil {
			t.Fatal(err)
		}
		wantPending(t, done)
		a := r.connect(t) // while the other stays
		pass(2 * time.Second)
		if a.asked(t).ID != "1" {
			t.Error("the next approver is not asked")
		}
		a.say(t, `{"jsonrpc":"2.0","result":false,"id":"1"}`)
		wantApproved(t, done, false)
	})
}

// TestCloseWaitsForNobodyLong: an approver that stays, one that waits and stays, and one that
// takes nothing keep it for a moment only.
func TestCloseWaitsForNobodyLong(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		for range 2 {
			_, leave := r.stay(t)
			defer leave()
		}
		wantClosedSoon(t, r.Close)
	})
	virtual(t, nil, func(t *testing.T, r *rig) {
		d := websocket.Dialer{NetDialContext: r.wire.dial}
		conn, _, err := d.Dial(address, http.Header{"Authorization": {"Bearer " + r.Token()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		synctest.Wait()
		r.ask(t, "1") // nobody reads it
		wantClosedSoon(t, r.Close)
	})
}

// TestRefusedApproversAreCounted: while they are being sent away, they take the places of those
// that wait.
func TestRefusedApproversAreCounted(t *testing.T) {
	virtual(t, &channel.Options{Wait: time.Millisecond}, func(t *testing.T, r *rig) {
		for range 9 {
			_, leave := r.stay(t)
			defer leave()
		}
		pass(100 * time.Millisecond) // all but the first have been refused
		if _, err := r.open(); err == nil {
			t.Error("more than 8 are being sent away")
		}
		pass(2 * time.Second)
		a, err := r.open()
		if err != nil {
			t.Fatal("those that were sent away stay:", err)
		}
		a.Close()
	})
}

// TestClientCloseWaitsForNoServer: one that stays keeps it for a moment only.
func TestClientCloseWaitsForNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		upgrader := websocket.Upgrader{}
		stop := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
			conn, err := upgrader.Upgrade(rw, q, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			go io.Copy(io.Discard, conn.NetConn())
			for {
				select {
				case <-time.After(300 * time.Millisecond):
					_ = conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
				case <-stop:
					return
				}
			}
		})}
		served := make(chan error)
		go func() { served <- server.Serve(w) }()
		c, err := channel.Dial(t.Context(), address, func(context.Context, *approval.Prompt) {}, &channel.ClientOptions{
			Logger: quiet(), HTTPClient: &http.Client{Transport: &http.Transport{DialContext: w.dial}},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantClosedSoon(t, c.Close)
		close(stop)
		server.Close()
		<-served
		w.cut()
	})
}

func wantClosedSoon(t *testing.T, end func() error) {
	t.Helper()
	closed := make(chan error, 1)
	start := time.Now()
	go func() { closed <- end() }()
	select {
	case err := <-closed:
		if took := time.Since(start); err != nil || took > 3*time.Second {
			t.Errorf("closed after %v: %v", took, err)
		}
	case <-time.After(time.Minute):
		t.Error("it is not closed after a minute")
	}
}
