package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

// wireWebSocket answers each message with the messages of the script.
func wireWebSocket(ctx context.Context, s *script) (Rig, error) {
	var closing closers
	url, err := closing.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var upgrader websocket.Upgrader
		conn, err := upgrader.Upgrade(rw, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, len(s.request)+1)
		for {
			if wrong, end := readMessage(conn, buf, s.request); wrong != nil || end != nil {
				return
			}
			for _, message := range s.answer {
				if err := conn.WriteMessage(websocket.TextMessage, message); err != nil {
					return
				}
			}
		}
	}), func() error { return nil })
	if err != nil {
		return nil, err
	}
	conn, resp, err := websocket.DefaultDialer.DialContext(ctx, "ws"+strings.TrimPrefix(url, "http"), nil)
	if err != nil {
		return nil, closing.after(err)
	}
	resp.Body.Close()
	buf := make([]byte, len(s.whole)+1)
	c := newWireClient(oneByOne(func() error {
		return conn.WriteMessage(websocket.TextMessage, s.request)
	}), func() (wrong, end error) {
		for _, message := range s.answer {
			if wrong, end := readMessage(conn, buf, message); wrong != nil || end != nil {
				return wrong, end
			}
		}
		return nil, nil
	})
	closing.add(c.wait)
	closing.add(conn.Close)
	return newRig(c.Do, closing...), nil
}

// readMessage reads a message that has to be want. buf is longer.
func readMessage(conn *websocket.Conn, buf, want []byte) (wrong, end error) {
	_, r, err := conn.NextReader()
	if err != nil {
		return nil, err
	}
	n, err := io.ReadFull(r, buf[:len(want)+1])
	if err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("after %d bytes: %w", n, err)
	}
	return same(buf[:n], want), nil
}
