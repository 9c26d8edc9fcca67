package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A stream is a sequence of messages to a client. At most one HTTP response carries it: the response to the request
// that opened the stream, or to a later request that resumes it. Events are stored before they are sent, so that the
// client can resume the stream at any replica.
type stream struct {
	jsonrpc.Peer // sends by Write
	session      *session
	charge       *bufpool.Charge // of the message that opened the stream
	call         jsonrpc.ID      // zero for a batch, and for unsolicited messages
	batch        []jsonrpc.ID    // the calls of a batch

	mu       sync.Mutex
	response *response // nil while the client is disconnected
	name     string    // empty until the stream is an event stream
	key      string    // of the stream in the log
	entry    []byte    // memory for the next entry of the log
	lastID   uint64    // of the last entry
	lastSent uint64    // of the last entry that is no mark
	lapses   int       // of the replica's lease when the stream began
	lost     bool      // an event could not be stored, so the stream cannot be resumed
	done     bool      // no message follows
	dropped  []drop    // the last unsolicited messages that were dropped; see sendDropped
}

// A drop is an unsolicited message that was dropped, since the client does not listen at this replica.
type drop struct {
	msg []byte
	at  time.Time
}

// Bounds of the drops of a stream in number, bytes of each and age.
const (
	maxDrops    = 16
	maxDrop     = 1 << 10
	maxDropTime = 5 * time.Second
)

// Kinds of entries of a stream in the log. The first byte of an entry is its kind.
const (
	entryStart   = 's' // the first entry; the rest is the id of the call, if the stream belongs to a call
	entryMessage = 'm'
	entryReply   = 'r' // the last message
	entryEnd     = 'e' // the call was canceled and has no reply
	entryMoved   = 'n' // the rest is the name of the stream that continues this one
	entryMark    = 'k' // nothing; it lasts longer than the last event
)

var (
	_ jsonrpc.Replier    = (*stream)(nil)
	_ transport.Detacher = (*stream)(nil)
)

// Write sends a message that is not an answer. A call that the client cannot receive fails;
// such a notification is dropped.
func (st *stream) Write(_ context.Context, msg []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.send(entryMessage, msg):
	case isCall(msg):
		return errNoStream
	case st == st.session.unsolicited && st.session.sessions.shared && len(msg) <= maxDrop:
		st.dropped = append(st.dropped[max(0, len(st.dropped)-maxDrops+1):], drop{bytes.Clone(msg), time.Now()})
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
	defer st.session.sessions.endCall(st.session)
	if msg != nil && len(st.batch) > 0 && st.session.hasEnded() {
		msg = st.addUnanswered(msg)
	}
	switch c := st.response; {
	case msg == nil && st.sendSessionEnd():
	case msg == nil && st.name != "": // the call was canceled
		st.store(entryEnd, nil)
	case msg == nil:
	case c != nil && st.name == "" && c.accepts.JSON:
		c.answer(msg)
	default:
		st.send(entryReply, msg)
	}
	st.done = true
	st.session.removeStream(st)
	st.endResponse()
}

// sendSessionEnd sends the error of a call whose session has ended, if the response is an event stream. It reports
// whether the error was sent.
func (st *stream) sendSessionEnd() bool {
	c, s := st.response, st.session
	if c == nil || c.events == nil || st.done || st.call.IsZero() && len(st.batch) == 0 || !s.hasEnded() || s.sessions.ctx.Err() != nil {
		return false
	}
	st.done = true
	return c.send(sse.Event{Data: st.sessionEnd()}) == nil
}

// sessionEnd returns the errors of the calls whose session has ended.
func (st *stream) sessionEnd() []byte {
	if len(st.batch) > 0 {
		return st.addUnanswered(nil)
	}
	return sessionEndOf(st.call)
}

func sessionEndOf(id jsonrpc.ID) []byte {
	message, _ := jsonrpc.Append(nil, &jsonrpc.Response{ID: id, Error: errSessionEnded}) // an error response has no invalid form
	return message
}

// addUnanswered adds an error to the array of responses to a batch for each call that has no response in it.
func (st *stream) addUnanswered(array []byte) []byte {
	items, _ := jsonrpc.SplitBatch(array) // the array is of this process
	answered := make(map[string]bool)
	var responses [][]byte
	for _, item := range items {
		responses = append(responses, item)
		if msg, err := jsonrpc.Decode(item); err == nil {
			if resp, ok := msg.(*jsonrpc.Response); ok {
				answered[resp.ID.String()] = true
			}
		}
	}
	for _, id := range st.batch {
		if !answered[id.String()] {
			responses = append(responses, sessionEndOf(id))
		}
	}
	return slices.Concat([]byte{'['}, bytes.Join(responses, []byte{','}), []byte{']'})
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
	if c := st.response; c != nil && c.accepts.Events && st.session.resumes() {
		st.open()
		_ = c.send(sse.Event{Retry: retry}) // a client that has disconnected may resume too
		st.endResponse()
	}
}

// send stores a message as an event and sends it if the client is connected. It reports
// whether the client has received the event or can resume the stream for it.
func (st *stream) send(kind byte, msg []byte) bool {
	if st.done || st.response == nil && st.name == "" || st.response != nil && !st.response.accepts.Events {
		return false // the client does not know the stream
	}
	st.open()
	msg = jsonscan.Line(msg) // some clients do not support several lines of data
	event := sse.Event{Data: msg}
	stored := st.store(kind, msg)
	if stored {
		event.ID = eventID(st.name, st.lastID)
	}
	if stored && kind == entryReply && !st.held() {
		outcome, err := st.session.outcome(st.session.conn.Input(), st.name)
		if err != nil { // the client resumes the stream
			st.endResponse()
			return true
		}
		event = sse.Event{ID: eventID(st.name, outcome.ID), Data: outcome.Data[1:]}
	}
	if st.response != nil && st.response.send(event) != nil {
		st.endResponse()
	}
	return stored || st.response != nil
}

// store adds an entry to the stream in the log. If that fails, the stream is deleted there: without
// the entry, a client that resumes it would miss an event.
func (st *stream) store(kind byte, data []byte) bool {
	if st.lost {
		return false
	}
	s := st.session
	log := s.sessions.store
	st.entry = append(append(st.entry[:0], kind), data...)
	id, err := log.Append(s.conn.Input(), st.key, st.entry)
	if cap(st.entry) > maxEntryBuffer {
		st.entry = nil
	}
	if err != nil {
		st.lost = true
		if !s.hasEnded() {
			s.sessions.config.Logger.Warn("streamable: storing an event failed", "error", err)
		}
		_ = log.Drop(s.conn.Input(), st.key) // entries also expire
		return false
	}
	st.lastID = id
	if kind != entryMark {
		st.lastSent = id
	}
	return true
}

// open turns the response into an event stream, which the client can resume from its
// beginning.
func (st *stream) open() {
	c := st.response
	if c == nil || c.open() {
		return
	}
	if st.name == "" {
		st.begin()
	}
	if st.session.resumes() && !st.lost {
		_ = c.send(sse.Event{ID: eventID(st.name, st.lastID)}) // if it fails, so does the next event
	}
}

// begin makes the stream resumable.
func (st *stream) begin() {
	st.name = st.session.sessions.replicas.id + rand.Text()
	if st == st.session.unsolicited {
		st.name = unsolicitedName + st.name
	}
	st.key = st.session.streamKey(st.name)
	st.lapses = st.session.sessions.replicas.lapseCount()
	st.store(entryStart, []byte(st.call.String()))
	st.session.addStream(st)
}

// restart makes a new stream of the unsolicited messages, without a response. It returns its name
// and the id of its first entry.
func (st *stream) restart() (name string, start uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.endResponse()
	st.reset()
	st.begin()
	name, start = st.name, st.lastID
	st.sendDropped()
	return name, start
}

// sendDropped sends the messages that were dropped shortly before the client listens at this replica.
// All replicas send a notification, but not at the same time, and the replica that has the client may
// release it before it sends this one. If the client has listened nowhere, a change may have been
// faster than its request to listen.
func (st *stream) sendDropped() {
	for _, d := range st.dropped {
		if time.Since(d.at) < maxDropTime {
			st.send(entryMessage, d.msg)
		}
	}
	st.dropped = nil
}

// release ends the stream of unsolicited messages at this replica, if it still has the name, since
// the client listens to another one.
func (st *stream) release(name string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.name == name && name != "" {
		st.endResponse()
		st.reset()
	}
}

// reset forgets the stream that the client knows.
func (st *stream) reset() {
	st.session.removeStream(st)
	st.name, st.lost = "", false
}

// answer answers a request of another replica.
func (st *stream) answer(req *streamRequest) streamState {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.name != req.Stream:
		return streamState{streamGone, req.After}
	case st.lost:
		return streamState{streamLost, req.After}
	}
	after := req.After
	if st.missedNothing(after) && st.store(entryMark, nil) { // the entry may be old, and its age limited
		after = st.lastID
	}
	if req.Release {
		st.endResponse()
		st.reset()
	}
	return streamState{streamOpen, after}
}

// held reports whether no other replica can have added entries to the stream, since this one has held
// its lease from the beginning of the stream.
func (st *stream) held() bool { return st.session.sessions.replicas.holds(st.lapses) }

// missedNothing reports whether no event follows an entry.
func (st *stream) missedNothing(after uint64) bool {
	return st.lastSent <= after && after <= st.lastID && st.held()
}

var errMoved error = busyError{errors.New("another request of the client has resumed the stream")}

// attach sets the response that carries the stream.
func (st *stream) attach(c *response) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.response = c
}

// listen sets the response that carries the stream of unsolicited messages. It ends the previous one: a client that
// asks again has lost it, or does not read it any more.
func (st *stream) listen(c *response) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.endResponse()
	if st.lost { // the client does not resume it
		st.reset()
	}
	st.response = c
	st.open()
	st.sendDropped()
}

// resume sends missed events of earlier streams and the events after an entry of this one, and sets
// the response that carries the stream. It ends a previous response, whose client has disconnected.
func (st *stream) resume(ctx context.Context, c *response, name string, after uint64, earlier ...storedPart) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.name != name {
		return errMoved
	}
	if st.lost {
		return store.ErrPurged
	}
	var missed []store.Entry
	if !st.missedNothing(after) { // otherwise the entry may be so old that the log has deleted it
		var err error
		if missed, err = st.session.read(ctx, name, after); err != nil {
			return err
		}
	}
	st.endResponse()
	c.open()
	for _, part := range earlier {
		c.replay(part.stream, part.entries)
	}
	ended := c.replay(st.name, missed)
	if len(earlier) > 0 && st.session.resumes() {
		_ = c.send(sse.Event{ID: eventID(st.name, st.lastID)}) // the client then knows the new name
	}
	if st.done || ended {
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
		st.sendSessionEnd()
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

// eventID returns an event id that contains the name of the stream.
func eventID(stream string, entry uint64) string {
	var room [80]byte // avoids an allocation
	id := append(append(room[:0], stream...), '-')
	return string(strconv.AppendUint(id, entry, 10))
}

const (
	// unsolicitedName begins the name of a stream for unsolicited messages. The name of any stream
	// then has the id of its replica and a random text.
	unsolicitedName = "u"
	// streamNameLength is the length of these two in bytes.
	streamNameLength = replicaIDLength + 26
)

// isStreamName reports whether a name has the form of the name of a call's stream, or of a stream for unsolicited
// messages.
func isStreamName(name string) (call, unsolicited bool) {
	rest, unsolicited := strings.CutPrefix(name, unsolicitedName)
	valid := len(rest) == streamNameLength && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdef") == ""
	return valid && !unsolicited, valid && unsolicited
}

// streamOwner returns the id of the replica that has opened a stream. The name is valid.
func streamOwner(name string) string {
	return strings.TrimPrefix(name, unsolicitedName)[:replicaIDLength]
}

// parseEventID splits an event id.
func parseEventID(id string) (stream string, entry uint64, ok bool) {
	stream, digits, _ := strings.Cut(id, "-")
	entry, err := strconv.ParseUint(digits, 10, 64)
	return stream, entry, err == nil
}
