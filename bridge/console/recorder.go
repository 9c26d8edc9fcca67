package console

import (
	"container/list"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

const (
	// maxRows is how many calls are kept.
	maxRows = 10_000
	// maxBodies is how many bytes of arguments, results, errors and notices are kept.
	maxBodies = 16 << 20
	// maxDefinitions is how many bytes of definitions the kept decisions of the policy are about.
	maxDefinitions = 16 << 20
)

// RecorderOptions configure a [Recorder]. The zero value is valid.
type RecorderOptions struct {
	// Bodies keeps the arguments, the results, the errors, and the progress and log messages of calls. By default only their
	// sizes are kept.
	Bodies bool
	// Messages keeps the messages of both sides of each call, if Bodies is set. By default they are kept for 5 minutes after an
	// operator has asked for it.
	Messages bool
}

// A Recorder keeps recent calls in memory for a [Console]: 10,000 calls, and 16 MiB of what they contain. The oldest go first:
// those of a principal that has more than half, if there is one. It may be used concurrently, by several servers.
type Recorder struct {
	bodies   bool
	messages bool         // always
	until    atomic.Int64 // messages are kept until then, in microseconds since 1970
	open     atomic.Int32 // how many requests there are in traffic
	secrets  atomic.Pointer[peertext.Redactor]

	mu        sync.Mutex
	hidden    []string // the secrets
	lastID    uint64
	version   uint64    // increased by each change of a row
	changes   list.List // of *row, the last changed at the back
	rows      *shelf
	contents  *shelf
	withdraws *shelf // of *row with a function that withdraws its questions
	byID      map[uint64]*row
	byCall    map[string]*row // that have not ended, by the id of the call
	byTask    map[string]*row
	questions list.List // of *row whose callers are asked, the first at the front
	servers   map[string]*statistics

	events    []event // the oldest first
	lastEvent uint64
	stderr    map[string]*lastLines // by alias

	definitions    map[*mcp.Definition]int // how many rows have each
	definitionSize int

	traffic
}

// NewRecorder returns a recorder without calls. opts may be nil.
func NewRecorder(opts *RecorderOptions) *Recorder {
	if opts == nil {
		opts = &RecorderOptions{}
	}
	r := &Recorder{
		bodies: opts.Bodies, messages: opts.Messages, traffic: traffic{requests: make(map[wire]*request), byConn: make(map[string][]*request), handshakes: make(map[string]*handshake)},
		byID: make(map[uint64]*row), byCall: make(map[string]*row), byTask: make(map[string]*row), servers: make(map[string]*statistics), stderr: make(map[string]*lastLines), definitions: make(map[*mcp.Definition]int),
	}
	r.rows = newShelf(maxRows, func(item any) { r.forget(item.(*row)) })
	r.contents = newShelf(maxBodies, func(item any) { item.(*content).drop() })
	r.withdraws = newShelf(maxBodies, func(item any) { item.(*row).withdraw = nil })
	r.connections = newShelf(maxHandshakes, func(item any) { r.forgetHandshake(item.(*handshake)) })
	return r
}

// Hide adds secrets that are replaced in everything that is kept afterwards, such as values of environments and headers. Texts of
// less than 8 bytes are not.
func (r *Recorder) Hide(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range secrets {
		quoted := jsonscan.Quote(secret) // as it is in JSON
		for _, text := range []string{secret, quoted[1 : len(quoted)-1]} {
			if !slices.Contains(r.hidden, text) {
				r.hidden = append(r.hidden, text)
			}
		}
	}
	r.secrets.Store(peertext.NewRedactor(r.hidden...))
}

// redact returns a text without secrets.
func (r *Recorder) redact(text string) string { return r.secrets.Load().Redact(text) }

// short returns the beginning of a text without secrets. It cuts the text afterwards, since no part of a secret may remain.
func (r *Recorder) short(text string, size int) string {
	return peertext.Cut(r.redact(text[:min(len(text), 8*size)]), size)
}

// ObserveServer adds the functions of the recorder to the options of a server, before the others.
func (r *Recorder) ObserveServer(opts *server.Options) {
	opts.Middleware = append([]mcp.Middleware{r.outermost}, opts.Middleware...)
	opts.CallMiddleware = append([]mcp.Middleware{r.aroundEntry}, opts.CallMiddleware...)
	opts.Outgoing = append([]server.Outgoing{r.outgoing}, opts.Outgoing...)
}

// ObserveUpstream adds the functions of the recorder to the configuration of a server of a bridge, after the others, so that
// it measures the time of the server.
func (r *Recorder) ObserveUpstream(config *bridge.Config) {
	var version atomic.Pointer[mcp.Version] // of the last session
	config.Middleware = append(slices.Clip(config.Middleware), func(next mcp.Handler) mcp.Handler {
		return r.aroundRequest(next, &version)
	})
	onSession := config.OnSession
	config.OnSession = func(ctx context.Context, caller *mcp.Caller) (ended func(reason error)) {
		version.Store(new(caller.Version))
		if onSession == nil {
			return nil
		}
		return onSession(ctx, caller)
	}
}

// ObservePolicy adds a function of the recorder to the options of a guard.
func (r *Recorder) ObservePolicy(opts *policy.GuardOptions) {
	next := opts.OnDecision
	opts.OnDecision = func(ctx context.Context, call *mcp.Call, q *policy.Request, d policy.Decision) {
		r.decided(ctx, q, d)
		if next != nil {
			next(ctx, call, q, d)
		}
	}
}

// ObserveApproval adds functions of the recorder to the options of a guard of package approval.
func (r *Recorder) ObserveApproval(opts *approval.Options) {
	r.ObservePolicy(&opts.GuardOptions)
	next := opts.OnAsk
	opts.OnAsk = func(ctx context.Context, request *approval.Request) func(approval.Answer, error) {
		answered := r.asked(ctx)
		if next == nil {
			return answered
		}
		nextAnswered := next(ctx, request)
		return func(a approval.Answer, err error) {
			answered(a, err)
			if nextAnswered != nil {
				nextAnswered(a, err)
			}
		}
	}
}

// asked begins the time in which an approver decides about the call of a context.
func (r *Recorder) asked(ctx context.Context) (answered func(approval.Answer, error)) {
	row := rowOf(ctx)
	if row == nil {
		return func(approval.Answer, error) {}
	}
	r.enter(row, person)
	return func(a approval.Answer, err error) {
		r.change(row, func() {
			row.in[person]--
			if err == nil {
				row.answer = &answer{At: time.Now(), By: a.By, Approved: a.Approved, Reason: a.Reason, Remembered: !a.Given.IsZero()}
				if row.answer.Remembered {
					row.answer.At = a.Given
				}
			}
		})
	}
}

// rowKey is the context key of the row of a call.
type rowKey struct{}

func rowOf(ctx context.Context) *row {
	row, _ := ctx.Value(rowKey{}).(*row)
	return row
}

// encoded returns a result as JSON, nil for none and for one that cannot be encoded, which the server reports.
func encoded(result mcp.Result) json.RawMessage {
	if result == nil {
		return nil
	}
	if raw, ok := result.(mcp.Raw); ok {
		return json.RawMessage(raw)
	}
	text, err := result.AppendJSON(nil)
	if err != nil {
		return nil
	}
	return text
}

// textOf returns the value of a JSON string, "" for any other value and for none.
func textOf(raw json.RawMessage) string {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(raw)
}

// isRecorded reports whether calls of a method have rows.
func isRecorded(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet || method == mcp.MethodResourcesRead
}

// outermost is a [mcp.Middleware].
func (r *Recorder) outermost(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		method := call.Method()
		if isAboutTask(method) {
			ctx = r.tracedTask(ctx, textOf(call.Member("taskId")))
		}
		switch {
		case method == mcp.MethodTasksGet || method == mcp.MethodTasksResult:
			result, err = next(ctx, call)
			if state := encoded(result); state != nil {
				r.sawTask(textOf(call.Member("taskId")), state, 1)
			}
			return result, err
		case method == mcp.MethodTasksCancel:
			if result, err = next(ctx, call); err == nil {
				r.taskCanceled(textOf(call.Member("taskId")))
			}
			return result, err
		case !isRecorded(method):
			return next(ctx, call)
		}
		caller := ctx
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		row, outcome := r.begin(ctx, call, cancel), frontend.Panicked
		if row == nil {
			return nil, ErrCanceled
		}
		call.OnDone(func() { r.callDone(caller, row) })
		defer func() {
			r.end(row, outcome, result, err)
			if asks, ok := mcp.AsInputRequired(err); ok {
				asked := *asks
				asked.Asked = func(withdraw func()) {
					if asks.Asked != nil {
						asks.Asked(withdraw)
					}
					r.keepWithdraw(row, withdraw, len(call.Params()))
				}
				err = &asked
			}
		}()
		result, err = next(context.WithValue(r.traced(ctx, row), rowKey{}, row), call)
		if err != nil && context.Cause(ctx) == ErrCanceled {
			result, err = nil, ErrCanceled
		}
		outcome, result, err = frontend.Outcome(caller, call, result, err)
		return result, err
	}
}

// aroundEntry is a [mcp.Middleware] around the function of an entry: the call of an upstream server waits there for the
// server to start, and for a slot.
func (r *Recorder) aroundEntry(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		row := rowOf(ctx)
		if row == nil {
			return next(ctx, call)
		}
		in := served
		if t := call.Target(); t != nil && t.Origin.Server != "" {
			in = queued
		}
		r.enter(row, in)
		defer r.leave(row, in)
		return next(ctx, call)
	}
}

// aroundRequest is a [mcp.Middleware] around a request to an upstream server, which speaks a version of the protocol.
func (r *Recorder) aroundRequest(next mcp.Handler, version *atomic.Pointer[mcp.Version]) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		row := rowOf(ctx)
		if row == nil || !isRecorded(call.Method()) {
			return next(ctx, call)
		}
		if v := version.Load(); v != nil {
			r.change(row, func() { row.serverVersion = string(*v) })
		}
		r.enter(row, served)
		defer r.leave(row, served)
		return next(ctx, call)
	}
}

// outgoing is a [server.Outgoing].
func (r *Recorder) outgoing(ctx context.Context, _ *mcp.Caller, method string, params json.RawMessage) (json.RawMessage, error) {
	if method == mcp.NotificationTasks {
		if id, err := jsonscan.Find(params, "taskId"); err == nil {
			r.sawTask(textOf(id), params, 0)
		}
		return params, nil
	}
	row := rowOf(ctx)
	if row == nil {
		return params, nil
	}
	switch method {
	case mcp.NotificationProgress:
		members, _ := jsonscan.ReadObject(params) // the server has made them
		progress, total := members.Get("progress"), members.Get("total")
		message := textOf(members.Get("message"))
		r.change(row, func() {
			row.progress, row.total = string(progress), string(total)
			r.notice(row, "progress", message)
		})
	case mcp.NotificationMessage:
		members, _ := jsonscan.ReadObject(params)
		level, data := textOf(members.Get("level")), string(members.Get("data"))
		r.change(row, func() { r.notice(row, level, data) })
	}
	return params, nil
}
