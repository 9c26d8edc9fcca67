package console

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// recordingTime is how long messages are kept after an operator has asked for it.
	recordingTime = 5 * time.Minute
	// maxMessages is how many messages of a call are kept, and maxNotifications how many until notifications are only counted.
	maxMessages, maxNotifications = 400, 200
	// maxFolded is for how many methods the messages that are not kept are counted.
	maxFolded = 20
	// maxRequests is how many requests of a call may have no answer yet.
	maxRequests = 64
	// maxParked is how many received requests wait for the call that they belong to.
	maxParked = 64
)

// Where a message came from, or went to.
const (
	fromClient = "client"
	toClient   = "to client"
	fromServer = "server"
	toServer   = "to server"
)

// A message is a frame that belongs to a call.
type message struct {
	at   time.Time
	conn string
	from string
	what string // the method, result or error
	poll bool   // a request for the state of a task, or its answer
	body *body
}

// A wire identifies a request: its connection, whether this program has sent it, and its id.
type wire struct {
	conn string
	sent bool
	id   string
}

// A request is a request of a call that has no answer yet.
type request struct {
	wire
	row   *row
	token string // of its progress
	poll  bool
}

// traffic joins frames and calls. The mutex of the recorder guards it.
type traffic struct {
	requests map[wire]*request
	byConn   map[string][]*request
	parked   []parked

	handshakes  map[string]*handshake // by connection
	connections *shelf                // of *handshake
	opened      sync.Map              // the keys are connections whose handshakes are over
}

// A parked frame is a request that was received, before the handler of its call runs.
type parked struct {
	wire
	message *message
	token   string
}

// TraceClients adds a function of the recorder to the options of the connections of clients. It keeps the messages of a call
// while they are recorded.
func (r *Recorder) TraceClients(opts *jsonrpc.Options) { r.addTrace(opts, fromClient, toClient) }

// TraceServers adds a function of the recorder to the options of the connections to the servers of a bridge.
func (r *Recorder) TraceServers(opts *jsonrpc.Options) { r.addTrace(opts, fromServer, toServer) }

func (r *Recorder) addTrace(opts *jsonrpc.Options, received, sent string) {
	next := opts.Trace
	opts.Trace = func(conn string, isSent bool, frame []byte) {
		if next != nil {
			next(conn, isSent, frame)
		}
		begins := sent == toServer && r.bodies && !r.isOpen(conn)
		if !begins && !r.recording() && r.open.Load() == 0 {
			return
		}
		if isSent {
			r.trace(sent, conn, true, begins, frame)
		} else {
			r.trace(received, conn, false, begins, frame)
		}
	}
}

// recording reports whether the messages of new calls are kept.
func (r *Recorder) recording() bool {
	return r.bodies && (r.messages || time.Now().UnixMicro() < r.until.Load())
}

// record begins to keep messages for some time, or ends it.
func (r *Recorder) record(on bool) {
	if on {
		r.until.Store(time.Now().Add(recordingTime).UnixMicro())
	} else {
		r.until.Store(0)
	}
}

// traced joins the messages of the request of a context to a call, and those of the requests that are made with the returned
// context.
func (r *Recorder) traced(ctx context.Context, w *row) context.Context {
	if w == nil || !r.recording() {
		return ctx
	}
	if conn, id := jsonrpc.Received(ctx); conn != "" {
		r.join(w, wire{conn, false, id.String()})
	}
	return jsonrpc.WithSent(ctx, func(conn string, id jsonrpc.ID) { r.join(w, wire{conn, true, id.String()}) })
}

// tracedTask is [Recorder.traced] for a request about a task.
func (r *Recorder) tracedTask(ctx context.Context, id string) context.Context {
	r.mu.Lock()
	w := r.byTask[id]
	r.mu.Unlock()
	return r.traced(ctx, w)
}

// join joins the messages of a request to a call.
func (r *Recorder) join(w *row, at wire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.begun(w, at)
	i := slices.IndexFunc(r.parked, func(p parked) bool { return p.wire == at })
	if q == nil || i < 0 {
		return
	}
	p := r.parked[i]
	r.parked = slices.Delete(r.parked, i, i+1)
	r.addRequest(q, p.message, p.token)
}

// begun adds a request of a call. It returns nil if there is no room. The mutex is held.
func (r *Recorder) begun(w *row, at wire) *request {
	if r.byID[w.id] != w || len(w.requests) >= maxRequests || r.requests[at] != nil {
		return r.requests[at]
	}
	q := &request{wire: at, row: w}
	r.requests[at] = q
	r.byConn[at.conn] = append(r.byConn[at.conn], q)
	w.requests = append(w.requests, q)
	r.open.Add(1)
	return q
}

// answered removes a request. The mutex is held.
func (r *Recorder) answered(q *request) {
	delete(r.requests, q.wire)
	without := func(list []*request) []*request {
		return slices.DeleteFunc(list, func(other *request) bool { return other == q })
	}
	q.row.requests = without(q.row.requests)
	if r.byConn[q.conn] = without(r.byConn[q.conn]); len(r.byConn[q.conn]) == 0 {
		delete(r.byConn, q.conn)
	}
	r.open.Add(-1)
}

// forgetRequests removes the requests of a call: all, or those that this program has sent. The mutex is held.
func (r *Recorder) forgetRequests(w *row, all bool) {
	for _, q := range slices.Clone(w.requests) {
		if all || q.sent {
			r.answered(q)
		}
	}
}

// trace keeps a frame if it belongs to a call, or to the handshake of a connection that begins.
func (r *Recorder) trace(from, conn string, sent, begins bool, frame []byte) {
	members, err := jsonscan.ReadObject(frame)
	if err != nil {
		return // malformed, or an array of messages
	}
	id, _ := jsonrpc.ParseID(members.Get("id")) // zero for a notification
	params := members.Get("params")
	m := &message{at: time.Now(), conn: conn, from: from, what: textOf(members.Get("method")), body: newBody(frame, r.secrets.Load())}
	r.mu.Lock()
	defer r.mu.Unlock()
	if begins {
		r.traceHandshake(m, sent)
	}
	switch at := (wire{conn, sent, id.String()}); {
	case m.what == "":
		at.sent = !sent
		m.what = "result"
		if members.Get("error") != nil {
			m.what = "error"
		}
		if q := r.requests[at]; q != nil {
			m.poll = q.poll
			r.addMessage(q.row, m, false)
			r.answered(q)
		}
	case id.IsZero():
		r.traceNotification(at, m, params)
	default:
		q := r.requests[at]
		if q == nil && !sent && (isRecorded(m.what) || isAboutTask(m.what)) {
			if r.parked = append(r.parked, parked{at, m, tokenOf(params)}); len(r.parked) > maxParked {
				r.parked = slices.Delete(r.parked, 0, 1)
			}
			return
		}
		if w := r.onlyCall(conn); q == nil && w != nil {
			q = r.begun(w, at) // a question to the caller
		}
		if q != nil {
			r.addRequest(q, m, tokenOf(params))
		}
	}
}

// isAboutTask reports whether a request is about a task.
func isAboutTask(method string) bool {
	switch method {
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return true
	}
	return false
}

// traceNotification keeps a notification if it belongs to a call. The mutex is held.
func (r *Recorder) traceNotification(at wire, m *message, params json.RawMessage) {
	members, _ := jsonscan.ReadObject(params) // without params, it has no members
	var w *row
	switch m.what {
	case mcp.NotificationProgress:
		token := string(members.Get("progressToken"))
		for _, q := range r.byConn[at.conn] {
			if q.token == token && token != "" {
				w = q.row
			}
		}
	case mcp.NotificationCancelled:
		id, _ := jsonrpc.ParseID(members.Get("requestId"))
		at.id = id.String()
		if q := r.requests[at]; q != nil {
			w = q.row
			defer r.answered(q)
		}
	case mcp.NotificationTasks:
		w = r.byTask[textOf(members.Get("taskId"))]
	default:
		w = r.onlyCall(at.conn)
	}
	if w != nil {
		r.addMessage(w, m, true)
	}
}

// onlyCall returns the call of all requests on a connection, nil if there are several. The mutex is held.
func (r *Recorder) onlyCall(conn string) *row {
	var w *row
	for _, q := range r.byConn[conn] {
		if w != nil && q.row != w {
			return nil
		}
		w = q.row
	}
	return w
}

// tokenOf returns the progress token in the params of a request, "" for none and for a long one.
func tokenOf(params json.RawMessage) string {
	meta, err := jsonscan.Find(params, "_meta")
	if err != nil {
		return ""
	}
	token, err := jsonscan.Find(meta, mcp.MetaProgressToken)
	if err != nil || len(token) > maxName {
		return ""
	}
	return string(token)
}

// addRequest keeps the message of a request. The mutex is held.
func (r *Recorder) addRequest(q *request, m *message, token string) {
	q.token = token
	q.poll = m.what == mcp.MethodTasksGet
	m.poll = q.poll
	r.addMessage(q.row, m, false)
}

// addMessage keeps a message. Of the requests for the state of a task, only the last one of each side is kept. The mutex is held.
func (r *Recorder) addMessage(w *row, m *message, notification bool) {
	if r.byID[w.id] != w {
		return
	}
	r.touch(w) // pages get the messages again
	c := w.contents[messages]
	if c == nil {
		c = &content{row: w, part: messages, folded: make(map[string]int)}
		w.contents[messages] = c
		c.shelved = r.contents.add(w.holder, c, 0)
	}
	if len(c.messages) >= maxMessages || notification && len(c.messages) >= maxNotifications {
		what := r.name(m.what)
		if c.folded[what] > 0 || len(c.folded) < maxFolded {
			c.folded[what]++
		}
		return
	}
	grown := m.body.kept()
	if m.poll && m.what == mcp.MethodTasksGet {
		isClient := m.from == fromClient
		c.messages = slices.DeleteFunc(c.messages, func(old *message) bool {
			if !old.poll || (old.from == fromClient || old.from == toClient) != isClient {
				return false
			}
			grown -= old.body.kept()
			if old.what == m.what {
				c.folded[m.what]++
			}
			return true
		})
	}
	c.messages = append(c.messages, m)
	r.contents.grow(c.shelved, grown)
}

// shownMessages are the messages of a call, for operators.
type shownMessages struct {
	Recording bool           `json:"recording"`
	Messages  []shownMessage `json:"messages"`
	Folded    map[string]int `json:"folded"` // how many are not kept, by what they are
}

type shownMessage struct {
	At      int64  `json:"at"`
	From    string `json:"from"`
	Version string `json:"version"`
	What    string `json:"what"`
	shownBody
}

// showMessages returns the kept messages of a call.
func (r *Recorder) showMessages(id uint64, reveal bool) (*shownMessages, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[id]
	if w == nil {
		return nil, errNotKept
	}
	shown := &shownMessages{Recording: r.recording(), Messages: []shownMessage{}, Folded: map[string]int{}}
	c := w.contents[messages]
	if c == nil {
		return shown, nil
	}
	maps.Copy(shown.Folded, c.folded)
	for _, m := range c.messages {
		version := w.clientVersion
		if m.from == fromServer || m.from == toServer {
			version = w.serverVersion
		}
		shown.Messages = append(shown.Messages, shownMessage{m.at.UnixMicro(), m.from, version, r.name(m.what), *m.body.shown(reveal)})
	}
	return shown, nil
}
