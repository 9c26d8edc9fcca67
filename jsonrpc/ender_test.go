package jsonrpc_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// mourner counts how often it is told of the end.
type mourner struct{ told atomic.Int32 }

func (m *mourner) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return nil
}
func (m *mourner) Notified(jsonrpc.Peer, *jsonrpc.Request) {}
func (m *mourner) Ended()                                  { m.told.Add(1) }

func TestHandlerIsToldOfTheEndOnce(t *testing.T) {
	for name, end := range map[string]func(m *mourner){
		"closed twice": func(m *mourner) {
			d := jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler { return m }, nil)
			d.Close()
			d.Close()
		},
		"the end of input": func(m *mourner) {
			in, feed := io.Pipe()
			c := jsonrpc.NewConn(jsonrpc.NewLines(in, io.Discard, feed, nil), func(*jsonrpc.Conn) jsonrpc.Handler { return m }, nil)
			feed.Close()
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m mourner
			end(&m)
			if n := m.told.Load(); n != 1 {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// What bind has started may close the connection before there is a handler.
func TestHandlerIsToldOfAnEndBeforeIt(t *testing.T) {
	var m mourner
	var closing sync.WaitGroup
	jsonrpc.NewDispatcher(func(d *jsonrpc.Dispatcher) jsonrpc.Handler {
		closing.Go(d.Close)
		return &m
	}, nil)
	closing.Wait()
	if n := m.told.Load(); n != 1 {
		t.Errorf("told %d times", n)
	}
}
