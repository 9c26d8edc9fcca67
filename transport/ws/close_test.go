package ws_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

const (
	echoCall   = `{"jsonrpc":"2.0","id":1,"method":"echo","params":["é"]}`
	echoAnswer = `{"jsonrpc":"2.0","id":1,"result":["é"]}`
)

func frames(list ...[]byte) []byte {
	var all []byte
	for _, f := range list {
		all = append(all, f...)
	}
	return all
}

// What a client may not send ends its session, with the code that says why.
func TestCloseCodes(t *testing.T) {
	const maxMessage = 1000
	for name, c := range map[string]struct {
		sent   []byte
		code   int
		reason string
	}{
		"binary":                      {frame(fin|blob, echoCall), 1003, "a message must be text"},
		"empty binary":                {frame(fin|blob, ""), 1003, "a message must be text"},
		"bad UTF-8":                   {frame(fin|text, "\"\xff\""), 1007, "text must be UTF-8"},
		"surrogate":                   {frame(fin|text, "\"\xed\xa0\x80\""), 1007, "text must be UTF-8"},
		"overlong":                    {frame(fin|text, "\"\xc0\xaf\""), 1007, "text must be UTF-8"},
		"cut off character":           {frame(fin|text, "\"\xc3"), 1007, "text must be UTF-8"},
		"too big":                     {frame(fin|text, strings.Repeat("x", maxMessage+1)), 1009, ""},
		"too big in pieces":           {frames(frame(text, strings.Repeat("x", maxMessage)), frame(fin|more, "x")), 1009, ""},
		"too big by its claim":        {append(frameHead(fin|text, 1<<40), 0, 0, 0, 0), 1009, ""},
		"too big for a number":        {append(frameHead(fin|text, 1<<63), 0, 0, 0, 0), 1009, "a message may have at most 1000 bytes"},
		"not masked":                  {append([]byte{fin | text, byte(len(echoCall))}, echoCall...), 1002, "bad MASK"},
		"first reserved bit":          {frame(fin|rsv1|text, echoCall), 1002, "RSV1 set"},
		"second reserved bit":         {frame(fin|rsv2|text, echoCall), 1002, "RSV2 set"},
		"third reserved bit":          {frame(fin|rsv3|text, echoCall), 1002, "RSV3 set"},
		"reserved bit of a ping":      {frame(fin|rsv1|ping, ""), 1002, "RSV1 set"},
		"reserved opcode":             {frame(fin|3, ""), 1002, "bad opcode 3"},
		"reserved control opcode":     {frame(fin|11, ""), 1002, "bad opcode 11"},
		"ping in pieces":              {frame(ping, ""), 1002, "FIN not set on control"},
		"close in pieces":             {frame(closes, ""), 1002, "FIN not set on control"},
		"long ping":                   {frame(fin|ping, strings.Repeat("x", 126)), 1002, "len > 125 for control"},
		"continuation of nothing":     {frame(fin|more, "x"), 1002, "continuation after FIN"},
		"message within a message":    {frames(frame(text, "["), frame(fin|text, "]")), 1002, "data before FIN"},
		"close with a forbidden code": {frame(fin|closes, closePayload(1005, "")), 1002, "bad close code 1005"},
		"close with a code too small": {frame(fin|closes, closePayload(999, "")), 1002, "bad close code 999"},
		"close with bad UTF-8":        {frame(fin|closes, closePayload(1000, "\xff")), 1002, "invalid utf8 payload in close frame"},
		"normal close":                {frame(fin|closes, closePayload(1000, "bye")), 1000, ""},
		"close when leaving":          {frame(fin|closes, closePayload(1001, "")), 1001, ""},
		"close without a code":        {frame(fin|closes, ""), 1005, ""},
		"close with a private code":   {frame(fin|closes, closePayload(4999, "")), 4999, ""},
		"two closes":                  {frames(frame(fin|closes, closePayload(1000, "")), frame(fin|closes, closePayload(1001, ""))), 1000, ""},
		"close after a fault":         {frames(frame(fin|blob, ""), frame(fin|closes, closePayload(1000, ""))), 1003, "a message must be text"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newRecorded()
				n := newNetwork(t, ws.Handler(server, &ws.Options{MaxMessage: maxMessage}))
				conn, _ := n.connect(t.Context(), "", "")
				client := newRawClient(t, conn)
				client.Write(frame(fin|text, echoCall))
				client.receive(t, text, echoAnswer)

				start := time.Now()
				sending := make(chan struct{})
				go func() {
					defer close(sending)
					client.Write(c.sent)
				}()
				code, reason := client.receiveClose(t)
				if code != c.code || reason != c.reason {
					t.Errorf("closed with %d %q, want %d %q", code, reason, c.code, c.reason)
				}
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("closing took %v", took)
				}
				if err := <-server.ended; !errors.Is(err, jsonrpc.ErrClosed) {
					t.Errorf("the link ended with %v", err)
				}
				client.Close()
				<-sending
			})
		})
	}
}

// A client that still sends when it is cut off gets to know why, whatever its
// system does with data that nobody reads.
func TestCloseCodeArrives(t *testing.T) {
	url := serve(t, binder(echoing), &ws.Options{MaxMessage: 1000})
	for range 5 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		client := newRawClient(t, conn)
		sending := make(chan struct{})
		go func() {
			defer close(sending)
			client.Write(frame(fin|text, strings.Repeat("x", 4<<20)))
			client.Write(frame(fin|closes, ""))
			conn.(*net.TCPConn).CloseWrite()
		}()
		if code, _ := client.receiveClose(t); code != websocket.CloseMessageTooBig {
			t.Errorf("closed with %d", code)
		}
		<-sending
		client.Close()
	}
}

// What is legal, though nobody would send it in good faith, is served.
func TestOddButLegal(t *testing.T) {
	half := strings.Index(echoCall, "é") + 1 // in the middle of the character
	for name, sent := range map[string][]byte{
		"in pieces":            frames(frame(text, echoCall[:half]), frame(fin|more, echoCall[half:])),
		"in empty pieces":      frames(frame(text, ""), frame(more, ""), frame(more, echoCall), frame(fin|more, "")),
		"around pings":         frames(frame(text, echoCall[:half]), frame(fin|pong, "unasked"), frame(more, ""), frame(fin|more, echoCall[half:])),
		"after a blank one":    frames(frame(fin|text, ""), frame(fin|text, " \r\n"), frame(fin|text, echoCall)),
		"with a longer length": append([]byte{fin | text, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, byte(len(echoCall)), 0, 0, 0, 0}, echoCall...),
		"spread over lines":    frame(fin|text, strings.ReplaceAll(echoCall, ",", ",\r\n")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ws.Handler(binder(echoing), nil))
				conn, _ := n.connect(t.Context(), "", "")
				client := newRawClient(t, conn)
				client.Write(sent)
				client.receive(t, text, echoAnswer)
				client.Write(frame(fin|closes, ""))
				client.receiveClose(t)
			})
		})
	}
}

// What is no message is answered, and the session lives.
func TestMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var malformed []error
		n := newNetwork(t, ws.Handler(binder(echoing), &ws.Options{
			Conn: jsonrpc.Options{Malformed: func(err error) { malformed = append(malformed, err) }},
		}))
		conn, _ := n.connect(t.Context(), "", "")
		client := newRawClient(t, conn)
		for _, sent := range []string{`{"jsonrpc"`, `hello`, `{}`, "\xef\xbb\xbf" + echoCall, echoCall + echoCall} {
			client.Write(frame(fin|text, sent))
			opcode, payload, err := client.next()
			if err != nil || opcode != text || !strings.Contains(payload, `"error":{"code":-32`) {
				t.Errorf("%q was answered with %d %q (%v)", sent, opcode, payload, err)
			}
		}
		client.Write(frame(fin|text, echoCall))
		client.receive(t, text, echoAnswer)
		if len(malformed) != 5 {
			t.Errorf("%d of 5 were reported: %v", len(malformed), malformed)
		}
	})
}

// Closing the client's end sends a close frame, and waits for the server's.
func TestClientCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newRecorded()
		n := newNetwork(t, ws.Handler(server, nil))
		conn := n.dial(t, ws.DialOptions{})
		start := time.Now()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("closing took %v", took)
		}
		<-server.ended
		_, err := conn.Call(t.Context(), "echo", nil)
		var end *ws.CloseError
		if errors.As(err, &end) || !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("calling after closing: %v, want ErrClosed without a cause", err)
		}
	})
}

// A server that is closed ends its sessions with 1001, and waits for what runs.
func TestServerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var worked, called int
		endpoint := ws.Handler(binder(func(link transport.Link) jsonrpc.Handler {
			link.Go(func(ctx context.Context) {
				<-ctx.Done()
				<-time.After(time.Second)
				worked++
			})
			return handler(func(ctx context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
				called++
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}), nil)
		n := newNetwork(t, endpoint)
		conn := n.dial(t, ws.DialOptions{})
		failed := make(chan error, 1)
		go func() {
			_, err := conn.Call(t.Context(), "wait", nil)
			failed <- err
		}()
		synctest.Wait()

		start := time.Now()
		done := make(chan struct{})
		for range 3 {
			go func() {
				endpoint.Close()
				done <- struct{}{}
			}()
		}
		for range 3 {
			<-done
		}
		if took := time.Since(start); took != time.Second || worked != 1 || called != 1 {
			t.Errorf("closing took %v, want the second that the session needed (%d, %d)", took, worked, called)
		}
		var end *ws.CloseError
		var call *jsonrpc.CallError
		err := <-failed
		if !errors.As(err, &call) || call.Delivery != jsonrpc.MaybeExecuted || !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the call failed with %v", err)
		}
		if !errors.As(err, &end) || end.Code != websocket.CloseGoingAway || end.Sent {
			t.Errorf("the call failed with %v, want the server's code 1001", err)
		}
		<-conn.Done()
		if err := conn.Notify(t.Context(), "note", nil); !errors.As(err, &end) {
			t.Errorf("a notification afterwards failed with %v, want the server's code", err)
		}
		if _, err := ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: n.client()}).Dial(t.Context(), handler(refuse)); !strings.Contains(fmt.Sprint(err), "503") {
			t.Errorf("dialling a closed endpoint: %v, want 503", err)
		}
	})
}

// Closing is bounded, whatever the peer and the handlers do.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		endpoint := ws.Handler(binder(func(link transport.Link) jsonrpc.Handler {
			link.Go(func(context.Context) { <-release }) // ignores its context
			return handler(echo)
		}), nil)
		n := newNetwork(t, endpoint)
		conn, _ := n.connect(t.Context(), "", "")
		newRawClient(t, conn) // takes nothing, and never closes
		start := time.Now()
		endpoint.Close()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("closing took %v", took)
		}
		close(release)
	})
}
