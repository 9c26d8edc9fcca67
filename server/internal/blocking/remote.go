package blocking

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A run at another replica than the function's visits the function: it sends its answers, and then asks for the outcome
// until there is one.

const (
	// replyWithin is how long the replica of a function waits for something to reply. It is shorter than what a store
	// permits.
	replyWithin = time.Second
	// lostAfter is how long the replica of a function may be silent until it counts as lost.
	lostAfter = 10 * time.Second
	// unattendedAfter is how long a visit lasts without a request. It is longer than lostAfter.
	unattendedAfter = 15 * time.Second
	// cancelTimeout bounds the message that a run was cancelled.
	cancelTimeout = 2 * time.Second
)

// Limits of the notifications that wait for a request. The oldest are dropped.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 1 << 20
)

// maxVisits is the maximum number of visits of a function: a client may send its answers again.
const maxVisits = 8

// A request is a message to the replica of a function. It may be sent again.
type request struct {
	Visit string `json:"visit"` // id of the visit
	Call  string `json:"call"`
	Tool  string `json:"tool"`
	Round int    `json:"round"`
	// Begin begins the visit, with Answers.
	Begin    bool              `json:"begin,omitempty"`
	Answers  map[string]answer `json:"answers,omitempty"`
	Progress bool              `json:"progress,omitempty"` // the caller wants progress
	LogLevel mcp.LoggingLevel  `json:"logLevel,omitempty"`
	After    int               `json:"after"`            // number of the first notification that is asked for
	Cancel   string            `json:"cancel,omitempty"` // why the run was cancelled
}

// size returns the bytes of the answers.
func (r *request) size() (size int64) {
	for key, answer := range r.Answers {
		size += questionMemory + int64(len(key)+len(answer.Value))
	}
	return size
}

// An answer is the answer to a question, or why there is none.
type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *wireError      `json:"error,omitempty"`
}

// A reply is the answer to a request.
type reply struct {
	Known         bool           `json:"known"` // the replica has the function
	Notifications []notification `json:"notifications,omitempty"`
	Next          int            `json:"next,omitempty"` // number of the next notification
	Outcome       *wireOutcome   `json:"outcome,omitempty"`

	parts []string // of this message, in the store
}

type notification struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// send sends a notification in a run, progress with its token.
func (n *notification) send(ctx context.Context, call *mcp.Call) error {
	params := mcp.Raw(n.Params)
	if n.Method == mcp.NotificationProgress {
		var err error
		if params, err = jsonscan.Splice(nil, n.Params, jsonscan.Edit{Name: mcp.MetaProgressToken, Value: call.ProgressToken()}); err != nil {
			return err
		}
	}
	return call.Notify(ctx, n.Method, params)
}

// A wireOutcome is an outcome or an error.
type wireOutcome struct {
	Result    json.RawMessage             `json:"result,omitempty"`
	Error     *wireError                  `json:"error,omitempty"`
	Questions map[string]mcp.InputRequest `json:"questions,omitempty"`
	Round     int                         `json:"round,omitempty"`
}

func newWireOutcome(out outcome, err error) *wireOutcome {
	if err == nil && out.questions == nil {
		encoded, failed := encode(out.result)
		if failed == nil {
			return &wireOutcome{Result: json.RawMessage(encoded)}
		}
		err = failed
	}
	return &wireOutcome{Error: newWireError(err), Questions: out.questions, Round: out.round}
}

// runElsewhere is a run whose function is at another replica.
func (c *Calls) runElsewhere(ctx context.Context, call *mcp.Call, tool string, at *place) (mcp.Result, error) {
	if c.config.Store == nil {
		return nil, errElsewhere
	}
	for {
		out, err := c.visit(ctx, call, tool, at)
		switch {
		case err != nil:
			return nil, err
		case out.Error != nil:
			return nil, out.Error.error()
		case out.Questions == nil:
			return mcp.Raw(out.Result), nil
		}
		at = &place{at.Replica, out.Round, sortedKeys(out.Questions), at.Digest}
		if len(answersOf(call, out.Questions)) == 0 {
			return nil, at.store(call, tool, out.Questions)
		}
	}
}

// answersOf returns what the call knows about questions: answers, and errors of those that its caller cannot be asked.
func answersOf(call *mcp.Call, questions map[string]mcp.InputRequest) map[string]answer {
	answers := make(map[string]answer)
	for key, request := range questions {
		value, err := call.Input(key, request)
		if _, asks := mcp.AsInputRequired(err); !asks {
			answers[key] = answer{value, newWireError(err)}
		}
	}
	return answers
}

// visit gives the answers of a call to its function, and waits for the outcome.
func (c *Calls) visit(ctx context.Context, call *mcp.Call, tool string, at *place) (*wireOutcome, error) {
	questions := make(map[string]mcp.InputRequest, len(at.Keys))
	for _, key := range at.Keys {
		questions[key] = mcp.InputRequest{} // the caller was asked
	}
	asks := &request{
		Visit: rand.Text(), Call: call.ID(), Tool: tool, Round: at.Round, Begin: true, Answers: answersOf(call, questions),
		Progress: call.ProgressToken() != nil, LogLevel: call.Caller.LogLevel,
	}
	heard := time.Now()
	pause := backoff.Backoff{Max: time.Second}
	for {
		got, err := c.replicas.ask(ctx, at.Replica, asks)
		switch {
		case ctx.Err() != nil:
			c.replicas.cancelVisit(at.Replica, asks, context.Cause(ctx))
			return nil, context.Cause(ctx)
		case err != nil && time.Since(heard) > lostAfter:
			c.config.Logger.Warn("the replica that runs a blocking tool does not answer", "tool", tool, "error", err)
			return nil, errLost()
		case err != nil:
			_ = pause.Wait(ctx) // the next attempt fails if ctx has ended
			continue
		case !got.Known:
			return nil, errNotWaiting
		}
		heard, asks.Begin, asks.Answers = time.Now(), false, nil
		pause.Reset()
		for _, n := range got.Notifications {
			_ = n.send(ctx, call) // if it fails, sending the result will fail too
		}
		asks.After = got.Next
		if got.Outcome != nil {
			return got.Outcome, nil
		}
	}
}

// ask sends a request to a replica and returns the reply.
func (r *replicas) ask(ctx context.Context, replica string, asks *request) (*reply, error) {
	sealed, err := r.seal(ctx, asks, requestBinding(replica))
	if err != nil {
		return nil, err
	}
	defer r.remove(context.WithoutCancel(ctx), sealed.parts)
	data, err := r.calls.config.Store.Request(ctx, subjectOf(replica), sealed.data)
	if err != nil {
		return nil, err
	}
	got := new(reply)
	err = r.open(ctx, data, replyBinding(asks), got)
	r.remove(context.WithoutCancel(ctx), got.parts)
	return got, err
}

// cancelVisit tells a replica that a run was cancelled. If that fails, the visit ends when no request comes.
func (r *replicas) cancelVisit(replica string, asks *request, cause error) {
	ctx, cancel := context.WithTimeout(r.ctx, cancelTimeout)
	defer cancel()
	asks.Begin, asks.Answers, asks.Cancel = false, nil, cause.Error()
	_, _ = r.ask(ctx, replica, asks)
}

// A visit is a run of a call at another replica. It is the [mcp.Responder] of the run here.
type visit struct {
	of      *function
	answers map[string]answer
	cancel  context.CancelCauseFunc
	timer   *time.Timer // ends the visit

	mu      sync.Mutex
	waiting []notification
	first   int // number of the first in waiting
	size    int // of the params in waiting
	outcome *wireOutcome
	changed chan struct{} // closed and replaced
}

// answer answers a request, when there is something to reply, or after replyWithin.
func (r *replicas) answer(asked *request) *reply {
	v := r.visitOf(asked)
	if v == nil {
		return &reply{}
	}
	if asked.Cancel != "" {
		v.cancel(cancelledError(asked.Cancel))
		return &reply{Known: true}
	}
	timeout := time.After(replyWithin)
	for {
		got, changed := v.reply(asked.After)
		if len(got.Notifications) > 0 || got.Outcome != nil {
			return got
		}
		select {
		case <-changed:
		case <-timeout:
			return got
		case <-r.ctx.Done():
			return got
		}
	}
}

// A cancelledError says why a run at another replica was cancelled.
type cancelledError string

func (e cancelledError) Error() string { return string(e) }

// visitOf returns the visit of a request, nil if it does not exist and the request does not begin it, or if the function
// does not exist.
func (r *replicas) visitOf(asked *request) *visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.visits[asked.Visit]; v != nil {
		v.timer.Reset(unattendedAfter)
		return v
	}
	f, err := r.calls.find(key{asked.Call, asked.Tool})
	if err != nil || !asked.Begin || r.closed {
		return nil
	}
	switch {
	case f.visits == maxVisits:
		return nil
	case f.hasEnded():
		asked.Answers = nil // the outcome is known
	case f.take(asked.size()) != nil:
		return nil
	}
	v := &visit{of: f, answers: asked.Answers, changed: make(chan struct{})}
	call, err := v.call(asked)
	if err != nil {
		return nil
	}
	var ctx context.Context
	ctx, v.cancel = context.WithCancelCause(r.ctx)
	v.timer = time.AfterFunc(unattendedAfter, func() { r.end(asked.Visit, v) })
	r.visits[asked.Visit] = v
	f.visits++
	f.attach(call)
	r.running.Go(func() { v.finish(newWireOutcome(f.wait(ctx, call, asked.Round))) })
	return v
}

// end ends a visit about which no request comes any more.
func (r *replicas) end(id string, v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.visits[id] == v {
		delete(r.visits, id)
		v.of.visits--
	}
	v.cancel(errUnattended)
}

// call returns the run of the visit.
func (v *visit) call(asked *request) (*mcp.Call, error) {
	params := mcp.Raw("{}")
	if asked.Progress {
		params = mcp.Raw(`{"_meta":{"` + mcp.MetaProgressToken + `":0}}`)
	}
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodToolsCall, json.RawMessage(params))
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(req, &mcp.Caller{LogLevel: asked.LogLevel}, v)
	return &call, nil
}

// reply returns the notifications from a number on, and the outcome if there is one. changed is closed when there is more.
func (v *visit) reply(after int) (got *reply, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.first < after && len(v.waiting) > 0 {
		v.drop()
	}
	return &reply{
		Known: true, Notifications: slices.Clip(v.waiting), Next: v.first + len(v.waiting), Outcome: v.outcome,
	}, v.changed
}

// drop removes the oldest notification. The lock must be held.
func (v *visit) drop() {
	v.size -= len(v.waiting[0].Params)
	v.waiting = v.waiting[1:]
	v.first++
}

func (v *visit) finish(out *wireOutcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.outcome = out
	v.wake()
}

// wake says that something has changed. The lock must be held.
func (v *visit) wake() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// Notify implements [mcp.Responder].
func (v *visit) Notify(_ context.Context, method string, params jsonrpc.Appender) error {
	encoded, err := params.AppendJSON(nil)
	if err != nil || len(encoded) > maxWaitingBytes {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiting = append(v.waiting, notification{method, encoded})
	v.size += len(encoded)
	for len(v.waiting) > maxWaiting || v.size > maxWaitingBytes {
		v.drop()
	}
	v.wake()
	return nil
}

// Input implements [mcp.Responder].
func (v *visit) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	got, ok := v.answers[key]
	if !ok {
		return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
	}
	return got.Value, got.Error.error()
}

// Load implements [mcp.Responder]. The run here needs no values, and the other methods have no effect: the run at the
// other replica has them.
func (v *visit) Load(string) (json.RawMessage, bool) { return nil, false }

// Store implements [mcp.Responder].
func (v *visit) Store(string, json.RawMessage) {}

// ID implements [mcp.Responder].
func (v *visit) ID() string { return "" }

// OnDone implements [mcp.Responder].
func (v *visit) OnDone(func()) {}

// Detach implements [mcp.Responder].
func (v *visit) Detach(time.Duration) {}

// TaskID implements [mcp.Responder].
func (v *visit) TaskID() string { return "" }
