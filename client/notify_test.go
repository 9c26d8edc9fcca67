package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A notified is a server that also reports the notifications that it gets.
type notified struct {
	*server.Server
	notifications chan *jsonrpc.Request
}

func (n notified) Bind(link transport.Link) jsonrpc.Handler {
	return notifiedHandler{n.Server.Bind(link), n.notifications}
}

type notifiedHandler struct {
	jsonrpc.Handler
	notifications chan *jsonrpc.Request
}

func (h notifiedHandler) HandleNotification(from jsonrpc.Peer, n *jsonrpc.Request) {
	switch n.Method {
	case mcp.NotificationRootsListChanged, "notifications/example":
		h.notifications <- n
	}
	h.Handler.HandleNotification(from, n)
}

func TestNotify(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := notified{newElicitServer(), make(chan *jsonrpc.Request, 10)}
		roots := []mcp.Root{{URI: "file:///a"}}
		dialer := transporttests.Dialer(t, s)
		if era == client.Modern { // over HTTP, servers of this module drop the notifications of modern clients
			dialer = transport.Pipe(s)
		}
		session := connect(t, dialer, client.Options{
			Era: era, Roots: func(context.Context) ([]mcp.Root, error) { return roots, nil },
		})
		if err := session.Notify(t.Context(), "notifications/example", json.RawMessage(`{"a":[1, 2],"_meta":{"example":7,"progressToken":1}}`)); err != nil {
			t.Fatal(err)
		}
		if n := waittest.Receive(t, "a notification", s.notifications); n.Method != "notifications/example" || string(n.Member("a")) != "[1, 2]" ||
			string(n.Member("_meta", "example")) != "7" || n.Member("_meta", "progressToken") != nil {
			t.Errorf("the server gets %s %s", n.Method, n.Params)
		}
		roots = append(roots, mcp.Root{URI: "file:///b"})
		if err := session.RootsChanged(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := session.Notify(t.Context(), "notifications/example", nil); err != nil {
			t.Fatal(err)
		}
		n := waittest.Receive(t, "a notification", s.notifications)
		if era == client.Legacy {
			if n.Method != mcp.NotificationRootsListChanged {
				t.Errorf("the server gets %s, want the change of the roots", n.Method)
			}
			n = waittest.Receive(t, "a notification", s.notifications)
		}
		if n.Method != "notifications/example" {
			t.Errorf("the server gets %s", n.Method)
		}
		if count, err := client.CallAs[int](t.Context(), session, "look", nil, nil); err != nil || count != 2 {
			t.Errorf("the server sees %d roots, %v; want 2", count, err)
		}
	})
}

// TestRootsAreDeclared checks that a client announces changes of roots where the version has them.
func TestRootsAreDeclared(t *testing.T) {
	for era, want := range map[client.Era]string{client.Modern: `"roots":{}`, client.Legacy: `"roots":{"listChanged":true}`} {
		var opened atomic.Value
		connect(t, script(func(req *jsonrpc.Request) []string {
			if req.Method == mcp.MethodInitialize || req.Method == mcp.MethodDiscover {
				opened.Store(string(req.Params))
			}
			return nil
		}), client.Options{Era: era, Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil }})
		if opened, _ := opened.Load().(string); !strings.Contains(opened, want) {
			t.Errorf("%v: the client declares %s, want %s", era, opened, want)
		}
	}
}

func TestNotifyFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			session := connect(t, transport.Pipe(newElicitServer()), client.Options{Era: era})
			failed(t, session.RootsChanged(t.Context()), jsonrpc.NotSent)
			failed(t, session.Notify(t.Context(), "notifications/example", json.RawMessage(`7`)), jsonrpc.NotSent)
			session.Close()
			failed(t, session.Notify(t.Context(), "notifications/example", nil), jsonrpc.NotSent)
		})
	})
}

// TestNotifyAfterReconnect checks that a notification waits for the next connection.
func TestNotifyAfterReconnect(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := notified{newElicitServer(), make(chan *jsonrpc.Request, 1)}
			dialer := &breaker{server: s}
			session := connect(t, dialer, client.Options{Era: era})
			dialer.cut()
			if err := session.Notify(t.Context(), "notifications/example", nil); err != nil {
				t.Fatal(err)
			}
			<-s.notifications
		})
	})
}
