package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A stream is a sequence of messages to a client. At most one response carries it: that of the
// request that opened the stream, or of a later request that resumes it. Messages sent while
// there is no response stay in the event store until the client resumes the stream.
type stream struct {
	jsonrpc.Peer // sends by Write
	session      *session
	charge       *bufpool.Charge // of the message that opened the stream

	mu         sync.Mutex
	response   *response // nil while the client is disconnected
	name       string    // empty until the stream is an event stream
	lastNumber int64     // of the last event
	done       bool      // no message follows
}

var (
	_ jsonrpc.Replier    = (*stream)(nil)
	_ transport.Detacher = (*stream)(nil)
)

// Write sends a message that is not an answer. A call that the client cannot receive fails;
// such a notification is dropped.
func (st *stream) Write(ctx context.Context, msg []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.send(ctx, msg) && isCall(msg) {
		return errNoStream
	}
	return nil
}

var errNoStream = errors.New("the client has no open stream for requests of the server")

func isCall(msg []byte) bool {
	decoded, err := jsonrpc.Decode(msg)
	req, ok := decoded.(*jsonrpc.Request)
	return err == nil && ok && !req.IsNotification()
}

// Reply sends the last message of a stream: as JSON if no other message preceded it.
func (st *stream) Reply(msg []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	defer st.session.endpoint.sessions.endCall(st.session)
	switch c := st.response; {
	case msg == nil: // the call was canceled
	case c != nil && st.name == "" && c.accepts.json:
		c.answer(msg)
	default:
		st.send(st.session.running.Input(), msg)
	}
	st.done = true
	st.session.removeStream(st)
	st.endResponse()
}

// TakeCharge returns the charge of the message that opened the stream.
func (st *stream) TakeCharge() *bufpool.Charge {
	st.charge.Retain()
	return st.charge
}

// An answered is the stream of unsolicited messages for one message of the client that needs no
// reply, such as the answer to a question.
type answered struct {
	*stream
	charge *bufpool.Charge // of the message
}

// TakeCharge returns the charge of the message.
func (a answered) TakeCharge() *bufpool.Charge {
	a.charge.Retain()
	return a.charge
}

// Detach ends the response if the client will resume the stream.
func (st *stream) Detach(retry time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if c := st.response; c != nil && c.accepts.events && st.session.resumes() {
		st.open()
		_ = c.send(sse.Event{Retry: retry}) // a client that has disconnected may resume too
		st.endResponse()
	}
}

// send stores a message as an event and sends it if the client is connected. It reports
// whether the client has received the event or can resume the stream for it.
func (st *stream) send(ctx context.Context, msg []byte) bool {
	if st.done || st.response == nil && st.name == "" || st.response != nil && !st.response.accepts.events {
		return false // the client does not know the stream
	}
	st.open()
	msg = jsonscan.Line(msg) // some clients do not support several lines of data
	st.lastNumber++
	e := st.session.endpoint
	err := e.opts.Events.Append(ctx, st.id(), StoredEvent{Number: st.lastNumber, Message: msg})
	if err != nil {
		e.opts.Logger.Warn("streamable: storing an event failed", "error", err)
	}
	if st.response != nil && st.response.send(sse.Event{ID: st.eventID(st.lastNumber), Data: msg}) != nil {
		st.endResponse()
	}
	return err == nil || st.response != nil
}

// open turns the response into an event stream, which the client can resume from its
// beginning.
func (st *stream) open() {
	c := st.response
	if c == nil || c.open() {
		return
	}
	if st.name == "" {
		st.name = rand.Text()
		if st == st.session.unsolicited {
			st.name = unsolicitedName + st.name
		}
		st.session.addStream(st)
	}
	if st.session.resumes() {
		_ = c.send(sse.Event{ID: st.eventID(st.lastNumber)}) // if it fails, so does the next event
	}
}

// attach sets the response that carries the stream.
func (st *stream) attach(c *response) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.response = c
}

// attachFirst sets the response that carries the stream of unsolicited messages. It returns
// false if there is one already.
func (st *stream) attachFirst(c *response) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.response != nil {
		return false
	}
	st.response = c
	st.open()
	return true
}

// resume sends the events after a number and sets the response that carries the stream. It
// ends a previous response, whose client has disconnected.
func (st *stream) resume(ctx context.Context, c *response, after int64) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if after > st.lastNumber {
		return ErrPurged
	}
	var missed []StoredEvent
	if after < st.lastNumber {
		var err error
		if missed, err = st.session.endpoint.opts.Events.After(ctx, st.id(), after); err != nil {
			return err
		}
		if int64(len(missed)) != st.lastNumber-after { // the store has refused some
			return ErrPurged
		}
	}
	st.endResponse()
	c.open()
	c.replay(st, missed)
	if st.done {
		c.end()
		return nil
	}
	st.response = c
	return nil
}

// detach removes a response that ends. It reports whether anything was sent.
func (st *stream) detach(c *response) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.response == c {
		st.endResponse()
	}
	return c.stop()
}

// endResponse ends the response that carries the stream.
func (st *stream) endResponse() {
	if st.response != nil {
		st.response.end()
		st.response = nil
	}
}

func (st *stream) id() StreamID { return StreamID{Session: st.session.id, Stream: st.name} }

// eventID returns an event id that contains the name of the stream.
func (st *stream) eventID(number int64) string {
	return st.name + "-" + strconv.FormatInt(number, 10)
}

const (
	// unsolicitedName begins the name of a stream for unsolicited messages.
	unsolicitedName = "u"
	// callNameLength is the length of the name of a call's stream, from rand.Text.
	callNameLength = 26
)

// isCallStream reports whether a name has the form of that of a call's stream.
func isCallStream(name string) bool {
	return len(name) == callNameLength && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// parseEventID splits an event id.
func parseEventID(id string) (stream string, number int64, ok bool) {
	stream, digits, _ := strings.Cut(id, "-")
	unsigned, err := strconv.ParseUint(digits, 10, 63)
	if stream == "" || err != nil {
		return "", 0, false
	}
	return stream, int64(unsigned), true
}

// A response is one HTTP response that carries a stream. It is guarded by the lock of the
// stream.
type response struct {
	endpoint *Endpoint
	w        http.ResponseWriter
	accepts  acceptedTypes
	events   *eventStream  // nil until it is an event stream
	answered bool          // with JSON
	ended    chan struct{} // closed when nothing more will be sent
}

func newResponse(e *Endpoint, w http.ResponseWriter, accepts acceptedTypes) *response {
	return &response{endpoint: e, w: w, accepts: accepts, ended: make(chan struct{})}
}

// open starts an event stream. It reports whether there was one already.
func (c *response) open() bool {
	if c.events != nil {
		return true
	}
	c.events = startEventStream(c.w, &c.endpoint.opts)
	return false
}

// send sends an event. It fails if the client has disconnected. It has no context, since a
// numbered event must not be skipped.
func (c *response) send(e sse.Event) error { return c.events.send(context.Background(), e) }

// replay sends stored events until the client disconnects.
func (c *response) replay(st *stream, missed []StoredEvent) {
	for _, event := range missed {
		if c.send(sse.Event{ID: st.eventID(event.Number), Data: event.Message}) != nil {
			return
		}
	}
}

// answer answers with JSON.
func (c *response) answer(msg []byte) {
	c.answered = true
	writeJSON(c.w, http.StatusOK, msg, c.endpoint.opts.Limits.WriteTimeout)
}

// wait waits for the end of the response, of the client or of the session.
func (c *response) wait(client context.Context, s *session) {
	select {
	case <-c.ended:
	case <-client.Done():
	case <-s.running.Input().Done():
	}
}

// end ends the response. It is called once.
func (c *response) end() { close(c.ended) }

// stop is called before the HTTP handler returns. It reports whether anything was sent.
func (c *response) stop() bool {
	if c.events != nil {
		c.events.stop()
		return true
	}
	return c.answered
}

// An eventStream sends keep-alive comments between events, without a goroutine of its own.
// It must be stopped before the HTTP handler returns.
type eventStream struct {
	stream   *sse.Stream
	interval time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func startEventStream(w http.ResponseWriter, opts *Options) *eventStream {
	p := &eventStream{stream: sse.Start(w, opts.Limits.WriteTimeout), interval: opts.KeepAlive}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.interval, p.keepAlive)
	return p
}

func (p *eventStream) send(ctx context.Context, e sse.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Reset(p.interval)
	return p.stream.Send(ctx, e)
}

// keepAlive sends a comment. If that fails, the context of the request ends.
func (p *eventStream) keepAlive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && p.stream.SendComment() == nil {
		p.timer.Reset(p.interval)
	}
}

func (p *eventStream) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
	p.stream.Close()
}

// writeJSON answers with JSON. It writes pieces with a deadline each, so that a client that
// is too slow is disconnected. net/http sends the last piece and removes the deadline.
func writeJSON(w http.ResponseWriter, status int, body []byte, timeout time.Duration) {
	header := w.Header()
	header["Content-Type"] = typeJSON
	if len(body) > minContentLength { // net/http sets it for shorter bodies
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	control := http.NewResponseController(w)
	w.WriteHeader(status)
	for len(body) > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(timeout)) // not every writer has deadlines
		piece := body[:min(len(body), writePiece)]
		if _, err := w.Write(piece); err != nil {
			return
		}
		body = body[len(piece):]
	}
}
