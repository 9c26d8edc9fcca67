package streamable_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// frames are the messages of each connection.
type frames struct {
	mu     sync.Mutex
	byConn map[string][]string
}

func (f *frames) trace(conn string, sent bool, frame []byte) {
	var message struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(frame, &message)
	direction := "<"
	if sent {
		direction = ">"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byConn == nil {
		f.byConn = make(map[string][]string)
	}
	f.byConn[conn] = append(f.byConn[conn], direction+message.Method+string(message.ID))
}

// Two clients use the same ids. The identifiers of their connections tell their messages apart.
func TestServerTraceTellsClientsApart(t *testing.T) {
	for era, want := range map[client.Era]struct {
		conns  int    // per client, at least
		frames string // of one connection with a call
	}{
		client.Legacy: {1, "<initialize1 >1 <notifications/initialized <tools/call"},
		client.Modern: {2, "<tools/call"},
	} {
		t.Run(era.String(), func(t *testing.T) {
			var served frames
			var dialled [2]frames
			s := newBookServer()
			address, stop := startServe(t, s, streamable.ServeOptions{Options: streamable.Options{Conn: jsonrpc.Options{Trace: served.trace}}})
			for i := range dialled {
				dialer := streamable.Dial("http://"+address+"/mcp", &streamable.DialOptions{Conn: jsonrpc.Options{Trace: dialled[i].trace}})
				session, err := client.Connect(t.Context(), dialer, &client.Options{Era: era})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := session.CallTool(t.Context(), "none", nil, nil); err == nil {
					t.Fatal("an unknown tool is called")
				}
				session.Close()
			}
			stop()
			calls := 0
			for conn, messages := range served.byConn {
				text := strings.Join(messages, " ")
				if strings.Contains(text, "tools/call") {
					calls++
					if conn == "" || !strings.HasPrefix(text, want.frames) || !strings.HasPrefix(messages[len(messages)-1], ">") {
						t.Errorf("the messages of the connection %q are %s, want %s … and the answer", conn, text, want.frames)
					}
				}
			}
			if calls != 2 || len(served.byConn) < 2*want.conns {
				t.Errorf("the server traced %v, want a call on each of two connections", served.byConn)
			}
			for i := range dialled {
				if len(dialled[i].byConn) != 1 {
					t.Errorf("a client traced %v, want one connection", dialled[i].byConn)
				}
			}
		})
	}
}
