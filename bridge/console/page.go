package console

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/wsconn"
)

// maxRowsPerFrame bounds what a page has to do at a time.
const maxRowsPerFrame = 500

// A page is a connected page. One goroutine reads and answers requests, and one writes.
type page struct {
	console   *Console
	socket    *websocket.Conn
	who       Person
	role      role
	keepAlive *wsconn.KeepAlive
	answers   chan []byte

	// What was sent.
	version uint64 // of the recorder
	events  uint64 // the number of the last one
	build   *[]byte
	servers []byte
	kept    []byte
	seconds int64
}

func newPage(c *Console, socket *websocket.Conn, who Person) *page {
	socket.SetReadLimit(maxFrame)
	return &page{console: c, socket: socket, who: who, role: who.role(), keepAlive: wsconn.NewKeepAlive(socket, keepAlive, writeTimeout), answers: make(chan []byte, 1)}
}

// serve returns when the page has disconnected, or when ctx has ended.
func (p *page) serve(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer end()
		p.read(ctx)
	})
	p.write(ctx)
	end()
	p.keepAlive.Stop()
	_ = p.socket.Close()
	reading.Wait()
}

// read answers requests until the page disconnects.
func (p *page) read(ctx context.Context) {
	for {
		kind, frame, err := p.socket.ReadMessage()
		if err != nil {
			return
		}
		p.keepAlive.Extend()
		if kind != websocket.TextMessage {
			continue
		}
		select {
		case p.answers <- p.answer(ctx, frame):
		case <-ctx.Done():
			return
		}
	}
}

// write sends changes and answers until ctx ends or the page is too slow.
func (p *page) write(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	err := p.send(frontend.Encode(map[string]any{
		"type": "hello", "role": p.role, "program": "dovetail", "now": time.Now().UnixMicro(), "arguments": p.console.record.bodies, "actions": p.console.actions(p.role),
	}))
	for err == nil {
		if err = p.sendChanges(); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			bye := websocket.FormatCloseMessage(websocket.CloseGoingAway, "the console is closing, or the login has expired")
			_ = p.socket.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second)) // the page may have disconnected
			return
		case <-ticker.C:
		case answer := <-p.answers:
			err = p.send(answer)
		case payload := <-p.keepAlive.Pongs():
			err = p.keepAlive.Pong(payload)
		case <-p.keepAlive.Pings():
			err = p.keepAlive.Ping()
		}
	}
}

func (p *page) send(frame []byte) error {
	_ = p.socket.SetWriteDeadline(time.Now().Add(writeTimeout)) // it cannot fail
	return p.socket.WriteMessage(websocket.TextMessage, frame)
}

// sendChanges sends the rows and the build that have changed, and once a second the servers if they have changed.
func (p *page) sendChanges() error {
	rows, version := p.console.record.changedSince(p.version)
	p.version = version
	for len(rows) > 0 {
		n := min(len(rows), maxRowsPerFrame)
		if err := p.send(frontend.Encode(callsFrame{"calls", rows[:n]})); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if err := p.sendEvents(); err != nil {
		return err
	}
	if build := p.console.build.Load(); build != p.build && p.role == operator {
		p.build = build
		if err := p.send(*build); err != nil {
			return err
		}
	}
	second := time.Now().Unix()
	if second == p.seconds {
		return nil
	}
	p.seconds = second
	if err := p.sendIfChanged(&p.servers, frontend.Encode(serversFrame{"servers", p.console.servers()})); err != nil {
		return err
	}
	return p.sendIfChanged(&p.kept, frontend.Encode(p.console.record.kept()))
}

// sendEvents sends what has happened.
func (p *page) sendEvents() error {
	var frame any
	before := p.events
	if p.role == operator {
		var events []detailedEvent
		events, p.events = eventsSince(p.console.record, before, (*event).detailed)
		frame = eventsFrame[detailedEvent]{"events", events}
	} else {
		var events []shownEvent
		events, p.events = eventsSince(p.console.record, before, (*event).shown)
		frame = eventsFrame[shownEvent]{"events", events}
	}
	if p.events == before {
		return nil
	}
	return p.send(frontend.Encode(frame))
}

func (p *page) sendIfChanged(last *[]byte, frame []byte) error {
	if bytes.Equal(*last, frame) {
		return nil
	}
	*last = frame
	return p.send(frame)
}

// The frames for all roles.
type (
	callsFrame struct {
		Type  string     `json:"type"`
		Calls []shownRow `json:"calls"`
	}
	serversFrame struct {
		Type    string        `json:"type"`
		Servers []shownServer `json:"servers"`
	}
	eventsFrame[T shownEvent | detailedEvent] struct {
		Type   string `json:"type"`
		Events []T    `json:"events"`
	}
	keptFrame struct {
		Type  string `json:"type"`
		Calls int    `json:"calls"`
		Bytes int    `json:"bytes"`
		Limit int    `json:"limit"`
	}
)

func (r *Recorder) kept() keptFrame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return keptFrame{"kept", r.rows.size, r.contents.size, maxBodies}
}

// A question is a request of a page.
type question struct {
	ID        json.RawMessage `json:"id"`
	Do        string          `json:"do"`
	Call      uint64          `json:"call"`
	Alias     string          `json:"alias"`
	Exposed   string          `json:"exposed"`
	Kind      string          `json:"kind"`
	Digest    string          `json:"digest"`
	Arguments string          `json:"arguments"`
	Text      string          `json:"text"`
	Show      bool            `json:"show"`
	On        bool            `json:"on"`

	by string // the name of the operator
}

// answer returns the answer to a request.
func (p *page) answer(ctx context.Context, frame []byte) []byte {
	var q question
	if err := json.Unmarshal(frame, &q); err != nil {
		return frontend.Encode(errorAnswer{"answer", q.ID, "expected a request: " + err.Error()})
	}
	q.by = p.who.Name
	if p.role != operator {
		return frontend.Encode(errorAnswer{"answer", q.ID, "expected an operator: viewers see names, times, outcomes and rules only"})
	}
	members, err := p.console.do(ctx, &q)
	if err != nil {
		return frontend.Encode(errorAnswer{"answer", q.ID, err.Error()})
	}
	// The members of the answer follow type and id.
	id := q.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	answer := append(append([]byte(`{"type":"answer","id":`), id...), ',')
	if body := frontend.Encode(members); len(body) > 2 {
		return append(answer, body[1:]...)
	}
	return append(answer[:len(answer)-1], '}')
}

type errorAnswer struct {
	Type  string          `json:"type"`
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}
