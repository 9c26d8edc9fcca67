package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A selector returns the payload for one subscription, or nil if the subscription does not get the
// event.
type selector func(ctx context.Context, data json.RawMessage) (json.RawMessage, error)

// A topic is an event with its log. The entries of the log are occurrences and marks. A mark has no
// content: it keeps the positions of subscribers from being older than the log while nothing
// happens.
type topic struct {
	name      string
	validator *schema.Validator // of a given payload schema; nil if it is reflected
	accept    func(ctx context.Context, caller *mcp.Caller, arguments json.RawMessage) (selector, error)
	server    atomic.Pointer[Server] // nil until the entry is registered

	mu     sync.Mutex
	newest uint64    // the id of the newest known entry, 0 for none
	added  time.Time // when it was added
}

// markInterval is how long nothing happens before a mark is added. It is shorter than half of
// the default of [store.Limits].LogAge.
const markInterval = time.Minute

// attach sets the server of the topic, once.
func (t *topic) attach(s *Server) {
	if s != nil {
		t.server.CompareAndSwap(nil, s)
	}
}

var errNotRegistered = errors.New("the event is not registered with a server")

// A logEntry is an entry of the log.
type logEntry struct {
	ID    string          `json:"id,omitempty"` // "" for a mark
	Time  time.Time       `json:"time,omitzero"`
	For   string          `json:"for,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	Added int64           `json:"added"` // in milliseconds since 1970
}

// stream returns the name of the log's stream. Servers with one store have streams of their own.
func (t *topic) stream(s *Server) string {
	sum := sha256.Sum256(token.Binding(s.info.Name, t.name))
	return "server/events/" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

func (t *topic) binding(s *Server) []byte { return token.Binding("event", s.info.Name, t.name) }

// publish appends an occurrence to the log.
func (t *topic) publish(ctx context.Context, data json.RawMessage, o PublishOptions) error {
	s := t.server.Load()
	if s == nil {
		return errNotRegistered
	}
	if len(o.ID) > maxEventID || len(o.For) > maxEventID {
		return fmt.Errorf("an id and a principal have at most %d bytes", maxEventID)
	}
	if t.validator != nil {
		if err := t.validator.WithMemory(s.memory).Validate(ctx, data); err != nil {
			return fmt.Errorf("the payload does not fit its schema: %w", err)
		}
	}
	if size := len(data) + len(o.ID) + len(t.name) + occurrenceOverhead; size > maxPayload {
		return fmt.Errorf("an occurrence has at most %d bytes, not %d", maxPayload, size)
	}
	if _, err := t.append(ctx, s, &logEntry{ID: o.ID, Time: o.Time, For: o.For, Data: data}); err != nil {
		return err
	}
	s.wakeWebhooks(t.name)
	return nil
}

// occurrenceOverhead is more than the size of an occurrence without its id, name and data, in bytes.
const occurrenceOverhead = 256

// append adds an entry to the log.
func (t *topic) append(ctx context.Context, s *Server, r *logEntry) (id uint64, err error) {
	now := time.Now()
	r.Added = now.UnixMilli()
	plain, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	sealed, err := s.dataKey.SealBytes(ctx, plain, t.binding(s))
	if err != nil {
		return 0, err
	}
	if id, err = s.store.get().Append(ctx, t.stream(s), sealed); err != nil {
		return 0, err
	}
	t.saw(id, now)
	return id, nil
}

// saw records the newest entry.
func (t *topic) saw(id uint64, added time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id > t.newest {
		t.newest, t.added = id, added
	}
}

func (t *topic) known() (id uint64, added time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest, t.added
}

// open returns the content of an entry.
func (t *topic) open(ctx context.Context, s *Server, e store.Entry) (*logEntry, error) {
	plain, err := s.dataKey.OpenBytes(ctx, e.Data, t.binding(s))
	if err != nil {
		return nil, fmt.Errorf("an entry of the log of the event %q: %w", t.name, err)
	}
	r := &logEntry{}
	if err := json.Unmarshal(plain, r); err != nil {
		return nil, err
	}
	t.saw(e.ID, time.UnixMilli(r.Added))
	return r, nil
}

// head returns the position of the newest entry. It reads what was added after the newest known one,
// and adds a mark if that is not stored any more or there is none.
func (t *topic) head(ctx context.Context, s *Server) (uint64, error) {
	last, added := t.known()
	if last > 0 {
		for e, err := range s.store.get().Read(ctx, t.stream(s), last) {
			if errors.Is(err, store.ErrPurged) {
				last = 0
				break
			}
			if err != nil && !errors.Is(err, store.ErrForged) {
				return 0, err
			}
			last, added = e.ID, time.Now()
		}
	}
	if last == 0 || time.Since(added) > markInterval {
		return t.mark(ctx, s)
	}
	t.saw(last, added)
	return last, nil
}

// keepFresh adds a mark if nothing was added for some time. A reader that is at the end finds the
// mark the next time; it must not skip what was added before the mark.
func (t *topic) keepFresh(ctx context.Context, s *Server) error {
	if _, added := t.known(); time.Since(added) <= markInterval {
		return nil
	}
	_, err := t.mark(ctx, s)
	return err
}

// mark adds a mark. A reader that begins again with the oldest entry calls it first, so that the log is
// not empty.
func (t *topic) mark(ctx context.Context, s *Server) (id uint64, err error) {
	return t.append(ctx, s, &logEntry{})
}

// maxCursor bounds the cursor of a request in bytes.
const maxCursor = 4 << 10

// encodeCursor returns the cursor of a position. It is bound to the event and the principal, and
// reveals nothing.
func (t *topic) encodeCursor(s *Server, ring *token.Ring, principal string, position uint64) string {
	plain := binary.BigEndian.AppendUint64(nil, position)
	return base64.RawURLEncoding.EncodeToString(ring.SealBytes(plain, t.cursorBinding(s, principal)))
}

// decodeCursor returns the position of a cursor. ok is false for a cursor that this server has not
// made for this event and principal, and if its key is lost.
func (t *topic) decodeCursor(ctx context.Context, s *Server, principal, cursor string) (position uint64, ok bool, err error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || strings.ContainsAny(cursor, "\r\n") { // which base64 skips
		return 0, false, nil
	}
	plain, err := s.dataKey.OpenBytes(ctx, sealed, t.cursorBinding(s, principal))
	switch {
	case errors.Is(err, token.ErrForged) || err == nil && len(plain) != 8:
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	return binary.BigEndian.Uint64(plain), true, nil
}

func (t *topic) cursorBinding(s *Server, principal string) []byte {
	return token.Binding("cursor of an event", s.info.Name, t.name, principal)
}

const (
	// heartbeatInterval is how often a stream says that it is alive. SEP-3415 asks for 30 seconds at
	// most.
	heartbeatInterval = 15 * time.Second
	// pollInterval is when a client may poll again.
	pollInterval = 5 * time.Second
	// maxPolled and maxPolledBytes bound the occurrences of one poll.
	maxPolled      = 100
	maxPolledBytes = 1 << 20
	// maxScanned bounds the entries that one poll reads.
	maxScanned = 1000
	// maxEventParams bounds the params of a request about events, which a stream holds, in bytes.
	maxEventParams = 64 << 10
)

// An eventReader reads a topic for one subscription.
type eventReader struct {
	topic     *topic
	server    *Server
	ring      *token.Ring // seals cursors; the key of events does not rotate
	principal string
	choose    selector
	floor     time.Time // occurrences before it are left out
	skipped   bool      // one was left out because of that
	position  uint64    // 0 is before the oldest entry
	lost      bool      // occurrences may have been lost since this was last reported
}

// handle answers events/poll and events/stream.
func (t *topic) handle(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
	defer recoverPanic(&err)
	s := t.server.Load()
	if s == nil {
		return nil, errNotRegistered
	}
	params, err := eventParams(call)
	if err != nil {
		return nil, err
	}
	r := &eventReader{topic: t, server: s, principal: call.Caller.Principal}
	if r.ring, err = s.dataKey.Ring(ctx); err != nil {
		return nil, err
	}
	if r.choose, err = t.accept(ctx, call.Caller, params.Arguments); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, invalidParams("%v", err)
	}
	begins, err := r.seek(ctx, params)
	if err != nil {
		return nil, err
	}
	if call.Method() == mcp.MethodEventsStream {
		return mcp.Raw("{}"), r.stream(ctx, call)
	}
	return r.poll(ctx, call, params, begins)
}

// eventParams decodes the params of a request.
func eventParams(call *mcp.Call) (*mcp.EventParams, error) {
	if n := len(call.Params()); n > maxEventParams {
		return nil, invalidParams("the params of %s may have at most %d bytes, not %d", call.Method(), maxEventParams, n)
	}
	params := &mcp.EventParams{}
	if err := params.UnmarshalJSON(call.Params()); err != nil {
		return nil, invalidParams("%v", err)
	}
	switch kind := jsonscan.KindOf(params.Arguments); {
	case params.Arguments == nil:
	case kind == jsonscan.Null:
		params.Arguments = nil
	case kind != jsonscan.Object:
		return nil, invalidParams("arguments must be an object, not %v", kind)
	}
	switch {
	case params.Cursor != nil && len(*params.Cursor) > maxCursor:
		return nil, invalidParams("a cursor has at most %d bytes", maxCursor)
	case params.MaxAgeMs != nil && *params.MaxAgeMs < 0:
		return nil, invalidParams("maxAgeMs must not be negative")
	case params.MaxEvents != nil && *params.MaxEvents < 1:
		return nil, invalidParams("maxEvents must be at least 1")
	}
	return params, nil
}

// seek sets the position of a request. begins is true if the subscription begins now.
func (r *eventReader) seek(ctx context.Context, params *mcp.EventParams) (begins bool, err error) {
	if params.Cursor != nil {
		var known bool
		if r.position, known, err = r.topic.decodeCursor(ctx, r.server, r.principal, *params.Cursor); err != nil {
			return false, err
		}
		if known {
			r.lost = r.position == 0
			if age := params.MaxAgeMs; age != nil && *age < maxAge.Milliseconds() {
				r.floor = time.Now().Add(-time.Duration(*age) * time.Millisecond)
			}
			return false, nil
		}
		r.lost = true
	}
	r.position, err = r.topic.head(ctx, r.server)
	return true, err
}

// maxAge is longer than any log.
const maxAge = 10 * 365 * 24 * time.Hour

func (r *eventReader) cursor() *string {
	return new(r.topic.encodeCursor(r.server, r.ring, r.principal, r.position))
}

// next moves to an entry, and returns its occurrence, or nil if the subscription does not get it.
func (r *eventReader) next(ctx context.Context, e store.Entry) (*mcp.EventOccurrence, error) {
	r.position = e.ID
	rec, err := r.topic.open(ctx, r.server, e)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, state.ErrNoKey):
		return nil, err
	default:
		r.server.options.Logger.Error("an occurrence of an event cannot be read", "event", r.topic.name, "error", err)
		r.lost = true
		return nil, nil
	}
	if rec.ID == "" || rec.For != "" && rec.For != r.principal {
		return nil, nil
	}
	data, err := r.choose(ctx, rec.Data)
	if data == nil || err != nil {
		return nil, err
	}
	if rec.Time.Before(r.floor) {
		r.lost = r.lost || !r.skipped // reported once
		r.skipped = true
		return nil, nil
	}
	return &mcp.EventOccurrence{EventID: rec.ID, Name: r.topic.name, Timestamp: rec.Time.UTC().Format(time.RFC3339Nano), Data: data}, nil
}

// withCursors is the key, in the values of a call, that makes the occurrences of a poll have cursors.
type withCursors struct{}

// poll reads a batch. SEP-3415, Poll-Based Delivery.
func (r *eventReader) poll(ctx context.Context, call *mcp.Call, params *mcp.EventParams, begins bool) (mcp.Result, error) {
	result := &mcp.PollEventsResult{Events: []mcp.EventOccurrence{}, NextPollMs: pollInterval.Milliseconds()}
	if !begins {
		most := maxPolled
		if params.MaxEvents != nil {
			most = int(min(*params.MaxEvents, maxPolled))
		}
		err := r.batch(ctx, most, result)
		if errors.Is(err, store.ErrPurged) {
			r.lost = true
			if _, err = r.topic.mark(ctx, r.server); err == nil {
				r.position = 0
				err = r.batch(ctx, most, result)
			}
		}
		if err != nil {
			return nil, err
		}
		if call.Get(withCursors{}) == nil {
			for i := range result.Events {
				result.Events[i].Cursor = nil
			}
		}
		if err := r.topic.keepFresh(ctx, r.server); err != nil {
			return nil, err
		}
	}
	result.Cursor, result.Truncated = r.cursor(), r.lost
	return result, nil
}

// batch appends occurrences to a result.
func (r *eventReader) batch(ctx context.Context, most int, result *mcp.PollEventsResult) error {
	size, scanned := 0, 0
	for e, err := range r.server.store.get().Read(ctx, r.topic.stream(r.server), r.position) {
		if err != nil && !errors.Is(err, store.ErrForged) { // next reports what cannot be read
			return err
		}
		before, lost := r.position, r.lost
		occurrence, err := r.next(ctx, e)
		if err != nil {
			return err
		}
		scanned++
		if occurrence == nil {
			if scanned < maxScanned {
				continue
			}
			result.HasMore = true
			return nil
		}
		size += len(occurrence.Data) + len(occurrence.EventID) + occurrenceOverhead
		if len(result.Events) == most || size > maxPolledBytes && len(result.Events) > 0 {
			r.position, r.lost = before, lost
			result.HasMore = true
			return nil
		}
		occurrence.Cursor = r.cursor()
		result.Events = append(result.Events, *occurrence)
	}
	return nil
}

// stream sends occurrences until ctx ends. SEP-3415, Push-Based Delivery.
func (r *eventReader) stream(ctx context.Context, call *mcp.Call) error {
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	for {
		if err := call.Notify(ctx, mcp.NotificationEventActive, &activeParams{r.cursor(), r.lost}); err != nil {
			return err
		}
		r.lost = false
		err := r.follow(ctx, call, heartbeat.C)
		if !errors.Is(err, store.ErrPurged) {
			return err
		}
		if _, err := r.topic.mark(ctx, r.server); err != nil {
			return err
		}
		r.position, r.lost = 0, true
	}
}

// follow sends occurrences and heartbeats. It returns [store.ErrPurged] when entries were deleted
// before they were read.
func (r *eventReader) follow(ctx context.Context, call *mcp.Call, heartbeats <-chan time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	entries, failed := make(chan store.Entry), make(chan error, 1)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	from := r.position
	following.Go(func() {
		for e, err := range r.server.store.get().Follow(ctx, r.topic.stream(r.server), from) {
			if err != nil && !errors.Is(err, store.ErrForged) {
				failed <- err
				return
			}
			select {
			case entries <- e:
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		select {
		case e := <-entries:
			occurrence, err := r.next(ctx, e)
			if err == nil && r.lost {
				r.lost = false
				err = call.Notify(ctx, mcp.NotificationEventActive, &activeParams{r.cursor(), true})
			}
			if err == nil && occurrence != nil {
				occurrence.Cursor = r.cursor()
				err = call.Notify(ctx, mcp.NotificationEvent, occurrence)
			}
			if err != nil {
				return err
			}
		case <-heartbeats:
			if err := r.topic.keepFresh(ctx, r.server); err != nil {
				return err
			}
			if err := call.Notify(ctx, mcp.NotificationEventHeartbeat, &mcp.EventStatusParams{Cursor: r.cursor()}); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// activeParams are the params of notifications/events/active. Both members are always sent.
type activeParams struct {
	cursor    *string
	truncated bool
}

// AppendJSON appends the params as a JSON object.
func (p *activeParams) AppendJSON(dst []byte) ([]byte, error) {
	dst = jsonscan.AppendString(append(dst, `{"cursor":`...), *p.cursor)
	return append(strconv.AppendBool(append(dst, `,"truncated":`...), p.truncated), '}'), nil
}
