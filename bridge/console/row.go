package console

import (
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// A phase is what a call spends its time with. While a call is in several, the first one counts.
type phase int

const (
	person phase = iota // an approver or the user of the caller decides
	served              // the upstream server, or the function of this server, works on the call
	queued              // the call waits for its server to start, or for a slot
	phases
)

var phaseNames = [...]string{"person", "served", "queued", ""}

// A row is one call in all its runs. The mutex of the recorder guards it.
type row struct {
	id       uint64
	version  uint64 // of the recorder when the row changed
	changed  *list.Element
	holder   quota.Holder
	callID   string
	taskID   string
	contents [parts]*content
	requests []*request // without an answer

	from      *mcp.Caller             // until the call has ended
	cancel    context.CancelCauseFunc // of the last run
	askedAt   time.Time
	inAsked   *list.Element // while the caller is asked
	withdraw  func()        // withdraws what the caller is asked; nil if that is not possible
	withdraws *shelved      // of withdraw

	began, ended time.Time // ended is zero for a call that has not ended
	outcome      string
	kind         mcp.Kind
	server, name string
	exposed      string // the name or URI that the caller used
	exact        bool   // exposed is as it was: neither cut nor with a secret replaced
	caller       string
	client       string
	script       string
	by           string // the principal of the console that has made the call

	clientVersion, serverVersion string // of the protocol
	runs, running, polls         int
	in                           [phases]int // how often the call is in a phase
	took                         [phases]time.Duration
	since                        time.Time // when took was last changed
	progress, total              string    // numbers
	bytesIn, bytesOut            int

	reached  bool // the function of the entry
	asked    bool // the last run asked the caller
	decided  bool // by a policy
	decision policy.Decision
	request  *policy.Request // what the decision is about, without arguments; nil if it is not kept
	answer   *answer
}

// An answer is the answer of an approver.
type answer struct {
	At         time.Time
	By         string
	Approved   bool
	Reason     string
	Remembered bool // the answer to an earlier request
}

// The parts of what a call contains.
const (
	arguments = iota
	result
	failure
	notices
	messages
	parts
)

// A content is a part of what a call contains, as long as there is room for it.
type content struct {
	row     *row
	part    int
	shelved *shelved
	body    *body
	notices []notice
	dropped int // of the notices

	messages []*message
	folded   map[string]int // how many messages are not kept, by what they are
}

func (c *content) drop() { c.row.contents[c.part] = nil }

// A notice is a progress or log message.
type notice struct {
	At    int64  `json:"at"`
	Level string `json:"level"`
	Text  string `json:"text"`
}

const (
	// maxNotices is how many notices of a call are kept, the last ones.
	maxNotices = 200
	// maxName is how much of a name or URI is kept, in bytes.
	maxName = 1 << 10
	// maxNotice is how much of the text of a notice is kept, in bytes.
	maxNotice = 1 << 10
)

// begin returns the row of a call: that of its earlier runs, or a new one. It returns nil for a call that was canceled between
// two runs. cancel cancels the run.
func (r *Recorder) begin(ctx context.Context, call *mcp.Call, cancel context.CancelCauseFunc) *row {
	now := time.Now()
	var sent *body
	if text := call.Member("arguments"); r.bodies && text != nil {
		sent = newBody(text, r.secrets.Load())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := call.ID()
	r.expire(now)
	w := r.byCall[id]
	if w != nil && !w.ended.IsZero() {
		return nil
	}
	if w == nil || id == "" {
		w = r.newRow(call, now)
		if made, ok := ctx.Value(madeKey{}).(func(row uint64)); ok {
			w.by = w.caller
			made(w.id)
		}
		if id != "" {
			w.callID = id
			r.byCall[id] = w
		}
		if sent != nil {
			r.keep(w, arguments, sent)
		}
	}
	w.advance(now)
	r.stopAsking(w)
	w.from, w.cancel = call.Caller, cancel
	if task := call.TaskID(); task != "" && w.taskID == "" {
		w.taskID = task
		r.byTask[task] = w
	}
	w.runs++
	w.running++
	r.touch(w)
	return w
}

// newRow adds a row. The mutex is held.
func (r *Recorder) newRow(call *mcp.Call, now time.Time) *row {
	r.lastID++
	subject := mcp.Subject(call.Method(), call.Member)
	exposed := r.name(subject)
	w := &row{
		id: r.lastID, began: now, since: now, exposed: exposed, exact: exposed == subject, name: exposed, kind: kindOf(call.Method()),
		caller: frontend.Truncate(call.Caller.Principal), clientVersion: string(call.Caller.Version), script: frontend.Truncate(call.Script()),
		bytesIn: len(call.Member("arguments")),
	}
	w.holder = quota.HolderOf(call.Caller.Principal, call.Caller.Network)
	if info := call.Caller.Info; info != nil {
		w.client = frontend.Truncate(strings.TrimSpace(info.Name + " " + info.Version))
	}
	if t := call.Target(); t != nil {
		w.server, w.name = t.Origin.Server, r.name(cmp.Or(call.URI(), t.Origin.Name, t.Name))
	}
	r.byID[w.id] = w
	w.changed = r.changes.PushBack(w)
	r.rows.add(w.holder, w, 1)
	return w
}

// name returns a name or URI as it is kept. A URI may contain secrets.
func (r *Recorder) name(text string) string { return r.short(text, maxName) }

func kindOf(method string) mcp.Kind {
	switch method {
	case mcp.MethodPromptsGet:
		return mcp.KindPrompt
	case mcp.MethodResourcesRead:
		return mcp.KindResource
	}
	return mcp.KindTool
}

// end ends a run, and the call unless it goes on.
func (r *Recorder) end(w *row, outcome string, got mcp.Result, err error) {
	now := time.Now()
	asks, _ := mcp.AsInputRequired(err)
	task, _ := got.(*mcp.Task)
	var text []byte
	var kept *body
	if err == nil && task == nil {
		text = encoded(got)
		if text != nil && r.bodies {
			kept = newBody(text, r.secrets.Load())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.advance(now)
	w.running--
	switch {
	case !w.ended.IsZero(): // as a task that was canceled
	case asks != nil && !asks.WantsTask():
		r.ask(w, now)
	case asks != nil: // it is run again
	case task != nil && !task.Status.Ended():
		w.taskID = task.TaskID
		r.byTask[task.TaskID] = w
		w.in[served]++
	default:
		w.bytesOut = len(text)
		r.finish(w, now, outcome, kept, err)
	}
	r.touch(w)
}

// finish ends a call. The mutex is held.
func (r *Recorder) finish(w *row, now time.Time, outcome string, kept *body, err error) {
	r.stopAsking(w)
	w.from = nil
	w.ended, w.outcome = now, words(outcome, err)
	delete(r.byCall, w.callID)
	r.forgetRequests(w, false)
	if kept != nil {
		r.keep(w, result, kept)
	}
	if err != nil && r.bodies {
		r.keep(w, failure, newBody([]byte(err.Error()), r.secrets.Load()))
	}
	r.count(w, now)
}

// sawTask ends the call of a task if the task has ended. state is the result of tasks/get, or a notification. polls is 1 if it
// answers a request for the state.
func (r *Recorder) sawTask(id string, state json.RawMessage, polls int) {
	members, err := jsonscan.ReadObject(state)
	if err != nil {
		return
	}
	status, text := mcp.TaskStatus(textOf(members.Get("status"))), members.Get("result")
	outcome := map[mcp.TaskStatus]string{mcp.TaskCompleted: frontend.OK, mcp.TaskFailed: frontend.ServerError, mcp.TaskCancelled: frontend.Canceled}[status]
	if isError, err := jsonscan.Find(text, "isError"); err == nil && string(isError) == "true" {
		outcome = frontend.ToolError
	}
	if text == nil {
		text = members.Get("error")
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byTask[id]
	if w == nil {
		return
	}
	w.advance(now)
	w.polls += polls
	if w.ended.IsZero() && w.running == 0 && status.Ended() {
		w.bytesOut = len(text)
		var kept *body
		if text != nil && r.bodies {
			kept = newBody(text, r.secrets.Load())
		}
		r.finish(w, now, outcome, kept, nil)
	}
	r.touch(w)
}

// words returns an outcome as the page shows it.
func words(outcome string, err error) string {
	if refused, ok := errors.AsType[*httptransport.StatusError](err); ok && refused.Status == 401 {
		return "no login"
	}
	switch outcome {
	case frontend.OK, frontend.Canceled:
		return outcome
	case frontend.ToolError:
		return "tool error"
	case frontend.Forbidden:
		return "denied"
	case "rejected":
		return "rejected"
	case "approval_timeout":
		return "expired"
	case "upstream_lost":
		return "lost"
	case frontend.BadParams:
		return "refused"
	case frontend.UnknownTool:
		return "unknown"
	}
	return "failed"
}

// enter and leave say that a call begins and ends something.
func (r *Recorder) enter(w *row, p phase) {
	r.change(w, func() {
		w.in[p]++
		w.reached = w.reached || p != person
	})
}
func (r *Recorder) leave(w *row, p phase) { r.change(w, func() { w.in[p]-- }) }

// change changes a row.
func (r *Recorder) change(w *row, change func()) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	w.advance(now)
	change()
	r.touch(w)
}

// advance adds the time since the last change to the phase of the row.
func (w *row) advance(now time.Time) {
	if p := w.phase(); p < phases {
		w.took[p] += now.Sub(w.since)
	}
	w.since = now
}

// phase returns the phase that goes on, phases for none.
func (w *row) phase() phase {
	for p := range phases {
		if w.in[p] > 0 && w.ended.IsZero() {
			return p
		}
	}
	return phases
}

// touch marks a row as changed. The mutex is held.
func (r *Recorder) touch(w *row) {
	if r.byID[w.id] != w {
		return // it is not kept any more
	}
	r.version++
	w.version = r.version
	r.changes.MoveToBack(w.changed)
}

// forget removes a row from the indexes. The mutex is held.
func (r *Recorder) forget(w *row) {
	delete(r.byID, w.id)
	delete(r.byCall, w.callID)
	delete(r.byTask, w.taskID)
	r.stopAsking(w)
	r.changes.Remove(w.changed)
	r.release(w)
	r.forgetRequests(w, true)
	for _, c := range w.contents {
		if c != nil {
			r.contents.remove(c.shelved)
		}
	}
}

// keep keeps a part of what a call contains, as long as there is room. The mutex is held.
func (r *Recorder) keep(w *row, part int, b *body) {
	if r.byID[w.id] != w {
		return
	}
	c := &content{row: w, part: part, body: b}
	w.contents[part] = c
	c.shelved = r.contents.add(w.holder, c, 0)
	r.contents.grow(c.shelved, b.kept())
}

// notice keeps a progress or log message. The mutex is held.
func (r *Recorder) notice(w *row, level, text string) {
	if !r.bodies || r.byID[w.id] != w {
		return
	}
	c := w.contents[notices]
	if c == nil {
		c = &content{row: w, part: notices}
		w.contents[notices] = c
		c.shelved = r.contents.add(w.holder, c, 0)
	}
	n := notice{time.Now().UnixMicro(), frontend.Truncate(level), r.short(text, maxNotice)}
	c.notices = append(c.notices, n)
	grown := len(n.Text)
	if len(c.notices) > maxNotices {
		grown -= len(c.notices[0].Text)
		c.notices = slices.Delete(c.notices, 0, 1)
		c.dropped++
	}
	r.contents.grow(c.shelved, grown)
}
