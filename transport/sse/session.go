package sse

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// The events of the transport.
const (
	eventEndpoint = "endpoint"
	eventMessage  = "message"
)

// A session is the server's end of one event stream: what is posted to it is read,
// and what is written goes out as events.
type session struct {
	id        string
	principal string
	conn      *jsonrpc.Conn
	stream    *sse.Stream
	posted    chan []byte
	outbox    *outbox

	closeOnce sync.Once
	closing   chan struct{} // closed when nothing is to be read or queued any more
	sent      chan struct{} // closed when nothing is sent any more
}

func newSession(id, principal string) *session {
	return &session{
		id: id, principal: principal,
		posted: make(chan []byte, maxPosted), outbox: newOutbox(),
		closing: make(chan struct{}), sent: make(chan struct{}),
	}
}

// Read returns the next message that was posted.
func (s *session) Read() ([]byte, error) {
	select {
	case msg := <-s.posted:
		return msg, nil
	case <-s.closing:
		return nil, jsonrpc.ErrClosed
	}
}

// Write queues a message to be sent.
func (s *session) Write(ctx context.Context, msg []byte) error { return s.outbox.put(ctx, msg) }

// Close has what is queued sent, for at most a second, and ends the stream.
func (s *session) Close() error {
	s.closeOnce.Do(func() {
		s.outbox.fail(jsonrpc.ErrClosed)
		close(s.closing)
	})
	timer := time.NewTimer(flushGrace)
	defer timer.Stop()
	select {
	case <-s.sent:
	case <-timer.C:
		s.stream.Abort()
	}
	return nil
}

// post hands a message over, and says with which status that ended.
func (s *session) post(ctx context.Context, msg []byte) int {
	select {
	case <-s.closing:
		return http.StatusNotFound
	default:
	}
	select {
	case s.posted <- msg:
		return http.StatusAccepted
	default:
	}
	timer := time.NewTimer(postPatience)
	defer timer.Stop()
	select {
	case s.posted <- msg:
		return http.StatusAccepted
	case <-s.closing:
		return http.StatusNotFound
	case <-timer.C:
	case <-ctx.Done():
	}
	return http.StatusServiceUnavailable
}

// send sends what is queued, and a comment when nothing was for so long, until the
// client is gone or the session is closed. Events that were queued at the same time
// share a write.
func (s *session) send(gone <-chan struct{}, keepAlive time.Duration) {
	silence := time.NewTimer(keepAlive)
	defer silence.Stop()
	for {
		if keepAlive < 0 {
			silence.Stop()
		} else {
			silence.Reset(keepAlive)
		}
		var err error
		select {
		case <-s.outbox.pending:
			err = s.stream.SendAll(s.outbox.take())
		case <-silence.C:
			err = s.stream.Beat()
		case <-gone:
			return
		case <-s.closing:
			_ = s.stream.SendAll(s.outbox.take()) // the client may miss it
			return
		}
		if err != nil {
			return
		}
	}
}
