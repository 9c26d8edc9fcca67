package servertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Message is one message of a session.
type Message struct {
	// FromServer reports that the server sends the message.
	FromServer bool
	// Method is the method of a call or notification. For a response, it is the method of the call.
	Method string
	// Content is a *jsonrpc.Request or a *jsonrpc.Response, which must not be changed.
	Content jsonrpc.Message
}

// A Fault is what happens to a message.
type Fault int

const (
	// Deliver delivers the message.
	Deliver Fault = iota
	// Drop loses the message.
	Drop
	// Duplicate delivers the message twice.
	Duplicate
	// Cut loses the message and ends the connection. The session connects again. Over
	// "streamable", it ends the HTTP request that carries the message; a client that can resume
	// the stream of the response then gets the message nevertheless.
	Cut
)

// String returns "deliver", "drop", "duplicate" or "cut".
func (f Fault) String() string {
	switch f {
	case Deliver:
		return "deliver"
	case Drop:
		return "drop"
	case Duplicate:
		return "duplicate"
	case Cut:
		return "cut"
	}
	return fmt.Sprintf("Fault(%d)", int(f))
}

// faults decides what happens to the messages of a session.
type faults struct {
	fault func(Message) Fault

	mu    sync.Mutex
	calls map[call]string // the methods of calls without a response
}

type call struct {
	fromServer bool
	id         jsonrpc.ID
}

func newFaults(fault func(Message) Fault) *faults {
	return &faults{fault: fault, calls: make(map[call]string)}
}

// of returns the fault of a frame.
func (f *faults) of(fromServer bool, frame []byte) Fault {
	content, err := jsonrpc.Decode(bytes.Clone(frame))
	if err != nil {
		return Deliver // the receiver refuses it
	}
	message := Message{FromServer: fromServer, Content: content}
	f.mu.Lock()
	switch content := content.(type) {
	case *jsonrpc.Request:
		message.Method = content.Method
		if !content.IsNotification() && len(f.calls) < maxMessages { // lost calls stay in the map
			f.calls[call{fromServer, content.ID}] = content.Method
		}
	case *jsonrpc.Response:
		of := call{!fromServer, content.ID}
		message.Method = f.calls[of]
		delete(f.calls, of)
	}
	f.mu.Unlock()
	return f.fault(message)
}

// wrap returns the client's end of a stream with faults.
func (f *faults) wrap(stream jsonrpc.Stream) jsonrpc.Stream {
	return &faultyStream{Stream: stream, faults: f}
}

// A faultyStream is the client's end of a stream with faults.
type faultyStream struct {
	jsonrpc.Stream
	faults *faults
	again  []byte // the next frame for Read
}

// Read returns the next message of the server.
func (s *faultyStream) Read() ([]byte, error) {
	for {
		if frame := s.again; frame != nil {
			s.again = nil
			return frame, nil
		}
		frame, err := s.Stream.Read()
		if err != nil {
			return nil, err
		}
		switch s.faults.of(true, frame) {
		case Drop:
			continue
		case Duplicate:
			s.again = bytes.Clone(frame)
		case Cut:
			_ = s.Stream.Close()
			return nil, io.EOF
		case Deliver:
		}
		return frame, nil
	}
}

// Write sends a message of the client. A lost message counts as sent.
func (s *faultyStream) Write(ctx context.Context, frame []byte) error {
	switch s.faults.of(false, frame) {
	case Drop:
		return nil
	case Duplicate:
		if err := s.Stream.Write(ctx, frame); err != nil {
			return err
		}
	case Cut:
		_ = s.Stream.Close()
		return nil
	case Deliver:
	}
	return s.Stream.Write(ctx, frame)
}
