package main

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A goSDKBytes is the least of a transport that the SDK needs: one request at a time.
type goSDKBytes struct {
	requests, answers chan []byte
	closed            chan struct{}
	closing           sync.Once
}

// openGoSDKBytes gives the server bytes. The SDK has no smaller way to do so than a
// connection.
func openGoSDKBytes(ctx context.Context, w Work) (Rig, error) {
	if w.Kind != Call {
		return nil, errAbsent
	}
	b := &goSDKBytes{requests: make(chan []byte), answers: make(chan []byte), closed: make(chan struct{})}
	session, err := newGoSDKServer(w).Connect(ctx, b, nil)
	if err != nil {
		return nil, err
	}
	if w.Era == Legacy {
		b.requests <- []byte(initialize)
		<-b.answers
		b.requests <- []byte(initialized)
	}
	e := newEcho(w)
	request := e.request(w.Era)
	return newRig(func(context.Context) error {
		b.requests <- request
		return e.checkBytes(<-b.answers)
	}, session.Close), nil
}

func (b *goSDKBytes) Connect(context.Context) (gosdk.Connection, error) { return b, nil }
func (b *goSDKBytes) SessionID() string                                 { return "" }

func (b *goSDKBytes) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case request := <-b.requests:
		return jsonrpc.DecodeMessage(request)
	case <-b.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *goSDKBytes) Write(ctx context.Context, m jsonrpc.Message) error {
	answer, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	select {
	case b.answers <- answer:
		return nil
	case <-b.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *goSDKBytes) Close() error {
	b.closing.Do(func() { close(b.closed) })
	return nil
}
