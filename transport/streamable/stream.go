package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A stream is a sequence of messages to a client, in order, by whichever response
// carries it: that of the request which began it, and later ones when the client
// comes back. What is sent while nothing carries it waits in the event store.
type stream struct {
	session *session

	mu      sync.Mutex
	carrier *carrier // nil while the client is away
	name    string   // "" as long as it has been no event stream
	number  int64    // of the last event
	over    bool     // nothing follows
}

var (
	_ jsonrpc.Outlet     = (*stream)(nil)
	_ transport.Detacher = (*stream)(nil)
)

// Write sends a message that is no answer. A question that the client will never see
// fails; a notification is just dropped.
func (st *stream) Write(ctx context.Context, msg []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.send(ctx, msg) && isCall(msg) {
		return errUnseen
	}
	return nil
}

var errUnseen = errors.New("the client has no stream on which it could be asked")

func isCall(msg []byte) bool {
	decoded, err := jsonrpc.Decode(msg)
	req, ok := decoded.(*jsonrpc.Request)
	return err == nil && ok && !req.IsNotification()
}

// Answer sends what the stream ends with: as JSON, if nothing has preceded it.
func (st *stream) Answer(msg []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	defer st.session.endpoint.sessions.leave(st.session)
	switch c := st.carrier; {
	case msg == nil: // it was cancelled
	case c != nil && st.name == "" && c.takes.json:
		c.answer(msg)
	default:
		st.send(st.session.running.Input(), msg)
	}
	st.over = true
	st.session.forget(st)
	st.hangUp()
}

// Detach hangs up, if the client will come back.
func (st *stream) Detach(retry time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if c := st.carrier; c != nil && c.takes.events && st.session.primes() {
		st.open()
		_ = c.send(sse.Event{Retry: retry}) // a client that is gone may come back all the same
		st.hangUp()
	}
}

// send makes a message an event, and sends it if the client is there. One that is not
// may come back for it. send says whether the client has got it or can get it.
func (st *stream) send(ctx context.Context, msg []byte) bool {
	if st.over || st.carrier == nil && st.name == "" || st.carrier != nil && !st.carrier.takes.events {
		return false // nobody has seen the stream, or ever will
	}
	st.open()
	msg = jsonscan.Line(msg) // several lines of data are more than some clients understand
	st.number++
	e := st.session.endpoint
	err := e.opts.Events.Append(ctx, st.id(), StoredEvent{Number: st.number, Message: msg})
	if err != nil {
		e.opts.Logger.Warn("streamable: an event was not kept", "error", err)
	}
	if st.carrier != nil && st.carrier.send(sse.Event{ID: st.eventID(st.number), Data: msg}) != nil {
		st.hangUp()
	}
	return err == nil || st.carrier != nil
}

// open makes the response an event stream, which the client can come back to from
// where it begins.
func (st *stream) open() {
	c := st.carrier
	if c == nil || c.open() {
		return
	}
	if st.name == "" {
		st.name = rand.Text()
		st.session.remember(st)
	}
	if st.session.primes() {
		_ = c.send(sse.Event{ID: st.eventID(st.number)}) // what follows will fail too
	}
}

// carry has a response carry the stream.
func (st *stream) carry(c *carrier) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.carrier = c
}

// begin has a response carry the stream that belongs to no call, from now on. Only
// one at a time does.
func (st *stream) begin(c *carrier) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.carrier != nil {
		return false
	}
	st.carrier = c
	st.open()
	return true
}

// resume has a response carry the stream, after what the client has missed. It takes
// the place of one that carries it now: that client is gone.
func (st *stream) resume(ctx context.Context, c *carrier, after int64) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if after > st.number {
		return ErrPurged
	}
	var missed []StoredEvent
	if after < st.number {
		var err error
		if missed, err = st.session.endpoint.opts.Events.After(ctx, st.id(), after); err != nil {
			return err
		}
		if int64(len(missed)) != st.number-after { // the store did not take them all
			return ErrPurged
		}
	}
	st.hangUp()
	c.open()
	c.replay(st, missed)
	if st.over {
		c.end()
		return nil
	}
	st.carrier = c
	return nil
}

// drop takes a response that ends off the stream. It says whether anything has been
// sent.
func (st *stream) drop(c *carrier) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.carrier == c {
		st.hangUp()
	}
	return c.stop()
}

// hangUp ends the response that carries the stream.
func (st *stream) hangUp() {
	if st.carrier != nil {
		st.carrier.end()
		st.carrier = nil
	}
}

func (st *stream) id() StreamID { return StreamID{Session: st.session.id, Stream: st.name} }

// eventID names an event so that it shows the stream that it is of.
func (st *stream) eventID(number int64) string {
	return st.name + "-" + strconv.FormatInt(number, 10)
}

// parseEventID reads what a client says was the last event it got.
func parseEventID(id string) (stream string, number int64, ok bool) {
	stream, digits, _ := strings.Cut(id, "-")
	unsigned, err := strconv.ParseUint(digits, 10, 63)
	if stream == "" || err != nil {
		return "", 0, false
	}
	return stream, int64(unsigned), true
}
