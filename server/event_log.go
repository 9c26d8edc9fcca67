package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
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
// [store.DefaultLogAge].
const markInterval = time.Minute

// attach sets the server of the topic, once.
func (t *topic) attach(s *Server) {
	if s != nil {
		t.server.CompareAndSwap(nil, s)
	}
}

var errNotRegistered = errors.New("the event is not registered with a server")

// A record is an entry of the log.
type record struct {
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
	if len(o.ID) > MaxEventID || len(o.For) > MaxEventID {
		return fmt.Errorf("an id and a principal have at most %d bytes", MaxEventID)
	}
	if t.validator != nil {
		if err := t.validator.WithMemory(s.memory).Validate(ctx, data); err != nil {
			return fmt.Errorf("the payload does not fit its schema: %w", err)
		}
	}
	if size := len(data) + len(o.ID) + len(t.name) + occurrenceOverhead; size > MaxPayload {
		return fmt.Errorf("an occurrence has at most %d bytes, not %d", MaxPayload, size)
	}
	if _, err := t.append(ctx, s, &record{ID: o.ID, Time: o.Time, For: o.For, Data: data}); err != nil {
		return err
	}
	s.events.wake(t.name)
	return nil
}

// occurrenceOverhead is more than the size of an occurrence without its id, name and data, in bytes.
const occurrenceOverhead = 256

// append adds an entry to the log.
func (t *topic) append(ctx context.Context, s *Server, r *record) (id uint64, err error) {
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
	if id, err = s.events.log().Append(ctx, t.stream(s), sealed); err != nil {
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
func (t *topic) open(ctx context.Context, s *Server, e store.Entry) (*record, error) {
	plain, err := s.dataKey.OpenBytes(ctx, e.Data, t.binding(s))
	if err != nil {
		return nil, fmt.Errorf("an entry of the log of the event %q: %w", t.name, err)
	}
	r := &record{}
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
		for e, err := range s.events.log().Read(ctx, t.stream(s), last) {
			if errors.Is(err, store.ErrPurged) {
				last = 0
				break
			}
			if err != nil {
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
	return t.append(ctx, s, &record{})
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

// events is what a server needs for its events.
type events struct {
	server *Server
	own    sync.Once
	memory *store.Memory // without Options.Store

	streams *quota.Quota
	waker   waker
}

// log returns the log of all events.
func (e *events) log() store.Log {
	if s := e.server.options.Store; s != nil {
		return s
	}
	e.own.Do(func() {
		memory, err := store.NewMemory(nil)
		if err != nil {
			panic(err) // the defaults are valid
		}
		e.memory = memory
	})
	return e.memory
}

// close releases the log of a server without a store.
func (e *events) close() error {
	e.own.Do(func() {})
	if e.memory == nil {
		return nil
	}
	return e.memory.Close()
}
