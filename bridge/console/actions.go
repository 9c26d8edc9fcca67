package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

var (
	errNotKept = errors.New("the call is not kept any more")
	errNoBody  = errors.New("its name and its arguments are not kept as a whole")
)

// do does what an operator asks for, and returns the members of the answer.
func (c *Console) do(ctx context.Context, q *question) (any, error) {
	if !slices.Contains(c.actions(operator), q.Do) {
		return nil, fmt.Errorf("expected one of %s, found %q", strings.Join(c.actions(operator), ", "), q.Do)
	}
	switch q.Do {
	case "call":
		return c.showCall(q)
	case "messages":
		return c.record.showMessages(q.Call, q.Show)
	case "save":
		c.opts.Logger.Info("console saves a call", "operator", q.by, "call", q.Call, "masked", !q.Show)
		return c.record.save(q.Call, q.Show)
	case "record":
		c.opts.Logger.Info("console records messages", "operator", q.by, "on", q.On)
		c.record.record(q.On)
		return done{}, nil
	case "server":
		return c.showServer(q.Alias)
	case "try":
		return c.try(ctx, q)
	case "again":
		return c.again(ctx, q)
	case "cancel":
		c.opts.Logger.Info("console cancels a call", "operator", q.by, "call", q.Call)
		return done{}, c.cancelCall(ctx, q.Call)
	case "restart":
		c.opts.Logger.Info("console restarts a server", "operator", q.by, "server", q.Alias)
		return done{}, c.bridge.Restart(q.Alias)
	case "refresh":
		return done{}, c.bridge.Refresh(q.Alias)
	case "login":
		c.opts.Logger.Info("console begins a login", "server", q.Alias, "operator", q.by)
		url, err := c.opts.Login(ctx, q.Alias)
		return map[string]string{"url": url}, err
	case "accept":
		return done{}, c.accept(q)
	case "policy":
		return c.opts.Policy().shown(), nil
	default: // whatif
		return c.record.whatIf([]byte(q.Text), c.opts.Compile), nil
	}
}

// A done is the answer to an action without a result.
type done struct{}

// A shownCall is a call with what it contains, for operators.
type shownCall struct {
	Row       shownRow      `json:"row"`
	Arguments *shownBody    `json:"arguments"`
	Result    *shownBody    `json:"result"`
	Failure   *shownBody    `json:"failure"`
	Notices   []notice      `json:"notices"`
	Dropped   int           `json:"dropped,omitempty"` // of the notices
	Missing   string        `json:"missing,omitempty"`
	Why       []policy.Step `json:"why"`
	Reason    string        `json:"reason,omitempty"`
	Decision  *decisionOf   `json:"decision,omitempty"`
	Command   string        `json:"command,omitempty"`
}

func (c *Console) showCall(q *question) (*shownCall, error) {
	call, request, sent, err := c.record.call(q.Call, q.Show)
	if err != nil {
		return nil, err
	}
	if q.Show {
		c.opts.Logger.Info("console shows masked values", "operator", q.by, "call", q.Call, "exposed", call.Row.Exposed)
	}
	if request != nil && c.opts.Policy != nil {
		request.Arguments = sent
		if sent != nil || call.Row.BytesIn == 0 {
			call.Why = c.opts.Policy().Compiled.Explain(request).Steps
		}
	}
	if c.opts.Command != nil && sent != nil && call.Row.Kind == mcp.KindTool.String() && call.Arguments.Masked == 0 {
		call.Command = c.opts.Command(call.Row.Server, call.Row.Name, sent)
	}
	return call, nil
}

// call returns a kept call, what the policy decided about, and the exact arguments if they are kept.
func (r *Recorder) call(id uint64, reveal bool) (*shownCall, *policy.Request, json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[id]
	if w == nil {
		return nil, nil, nil, errNotKept
	}
	body := func(part int) *shownBody {
		if kept := w.contents[part]; kept != nil {
			return kept.body.shown(reveal)
		}
		return nil
	}
	shown := &shownCall{
		Row: w.shown(time.Now()), Arguments: body(arguments), Result: body(result), Failure: body(failure), Notices: []notice{}, Why: []policy.Step{},
		Reason: cmp.Or(w.decision.UserMessage, w.decision.Reason), Decision: w.answer.shown(),
	}
	if kept := w.contents[notices]; kept != nil {
		shown.Notices, shown.Dropped = slices.Clone(kept.notices), kept.dropped
	}
	switch {
	case !r.bodies:
		shown.Missing = "arguments and results are not recorded"
	case shown.Arguments == nil && w.bytesIn > 0, shown.Result == nil && w.bytesOut > 0:
		shown.Missing = "contents of older calls are not kept"
	}
	var request *policy.Request
	if w.request != nil {
		about := *w.request
		request = &about
	}
	return shown, request, w.exactArguments(), nil
}

// exactArguments returns the arguments if they are kept as they were.
func (w *row) exactArguments() json.RawMessage {
	if kept := w.contents[arguments]; kept != nil && kept.body.whole() {
		return json.RawMessage(kept.body.text)
	}
	return nil
}

// again makes a kept call again, with its exact arguments.
func (c *Console) again(ctx context.Context, q *question) (any, error) {
	c.record.mu.Lock()
	w := c.record.byID[q.Call]
	if w == nil {
		c.record.mu.Unlock()
		return nil, errNotKept
	}
	sent, size, kind, exposed, exact := w.exactArguments(), w.bytesIn, w.kind, w.exposed, w.exact
	c.record.mu.Unlock()
	if sent == nil && size > 0 || !exact {
		return nil, errNoBody
	}
	return c.make(ctx, q.by, kind, exposed, sent)
}

// try calls a tool with the given arguments.
func (c *Console) try(ctx context.Context, q *question) (any, error) {
	if err := jsonscan.Valid([]byte(q.Arguments)); err != nil || jsonscan.KindOf([]byte(q.Arguments)) != jsonscan.Object {
		return nil, fmt.Errorf("arguments: expected a JSON object: %w", err)
	}
	return c.make(ctx, q.by, mcp.KindTool, q.Exposed, json.RawMessage(q.Arguments))
}

// make makes a call as a client of the server does, in the background, and returns its row.
func (c *Console) make(ctx context.Context, operator string, kind mcp.Kind, exposed string, arguments json.RawMessage) (any, error) {
	method, name := mcp.MethodToolsCall, "name"
	switch kind {
	case mcp.KindPrompt:
		method = mcp.MethodPromptsGet
	case mcp.KindResource:
		method, name = mcp.MethodResourcesRead, "uri"
	}
	params := jsonscan.AppendString([]byte(`{"`+name+`":`), exposed)
	if arguments != nil {
		params = append(append(params, `,"arguments":`...), arguments...)
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, append(params, '}'))
	if err != nil {
		return nil, err
	}
	if !c.begin() {
		return nil, errors.New("the console is closing")
	}
	rows := make(chan uint64, 1)
	call := mcp.NewCall(request, &mcp.Caller{Principal: PrincipalPrefix + operator, Info: &mcp.Implementation{Name: "console"}}, nil)
	c.opts.Logger.Info("console makes a call", "operator", operator, "method", method, "exposed", exposed)
	go func() {
		defer c.running.Done()
		defer close(rows)
		made := context.WithValue(c.ctx, madeKey{}, func(row uint64) { rows <- row })
		_, _ = c.server.Serve(made, &call) // the row has the outcome
	}()
	select {
	case row, ok := <-rows:
		if !ok {
			return nil, errors.New("the call was not recorded")
		}
		return map[string]uint64{"call": row}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// madeKey is the context key of the function that gets the row of a call of the console.
type madeKey struct{}

// listed are the kinds of entries that the page shows.
var listed = [...]mcp.Kind{mcp.KindTool, mcp.KindPrompt, mcp.KindResource, mcp.KindResourceTemplate}

// A shownUpstream is a server with its entries, for operators.
type shownUpstream struct {
	Server     *shownServer `json:"server"`
	Launch     string       `json:"launch,omitempty"`
	Reason     string       `json:"reason,omitempty"`
	Stderr     string       `json:"stderr,omitempty"` // the last lines
	Login      bool         `json:"login,omitempty"`  // the server demands a login
	Lists      []shownEntry `json:"lists"`
	NotOffered []string     `json:"notOffered"`
}

type shownEntry struct {
	Kind        string       `json:"kind"`
	PinKind     pin.Kind     `json:"pinKind"`
	Name        string       `json:"name"`
	Exposed     string       `json:"exposed"`
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description,omitempty"`
	Effect      string       `json:"effect,omitempty"`
	Trusted     bool         `json:"trusted"`
	Tokens      int          `json:"tokens"`
	State       string       `json:"state"` // offered, new, changed or invalid
	Digest      string       `json:"digest,omitempty"`
	Differences []difference `json:"differences,omitempty"`
	Schema      string       `json:"schema,omitempty"`
}

// A difference is a member of a definition that is not as it was accepted. The values are JSON texts.
type difference struct {
	Member string `json:"member"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

func (c *Console) showServer(alias string) (*shownUpstream, error) {
	shown := &shownUpstream{Lists: []shownEntry{}, NotOffered: []string{}}
	for _, s := range c.servers() {
		if s.Alias == alias {
			shown.Server = &s
		}
	}
	if shown.Server == nil {
		return nil, fmt.Errorf("there is no server %q", alias)
	}
	for _, state := range c.bridge.States() {
		if state.Alias != alias {
			continue
		}
		if state.Err != nil {
			shown.Reason = c.record.redact(state.Err.Error())
			refused, ok := errors.AsType[*httptransport.StatusError](state.Err)
			shown.Login = ok && refused.Status == http.StatusUnauthorized
		}
		for _, err := range state.NotOffered {
			shown.NotOffered = append(shown.NotOffered, c.record.redact(err.Error()))
		}
	}
	shown.Stderr = c.record.stderrOf(alias)
	pending := c.pending()
	for _, kind := range listed {
		for e := range c.bridge.Catalog().All(kind) {
			if e.Origin.Server == alias {
				shown.Launch = c.record.redact(e.Origin.Launch)
				shown.Lists = append(shown.Lists, showEntry(e, pending[pin.Entry{Kind: pinKind(kind), Name: e.Name}]))
			}
		}
	}
	return shown, nil
}

// pending returns the entries that wait to be accepted. Their names are those in the bridge.
func (c *Console) pending() map[pin.Entry]*pin.Pending {
	pending := make(map[pin.Entry]*pin.Pending)
	if c.opts.Lock == nil {
		return pending
	}
	for _, p := range c.opts.Lock.Pending() {
		pending[p.Entry] = &p
	}
	return pending
}

// accept accepts a pending definition, unless another one is pending by now.
func (c *Console) accept(q *question) error {
	entry := pin.Entry{Kind: pin.Kind(q.Kind), Name: q.Exposed}
	p := c.pending()[entry]
	if p == nil {
		return pin.ErrNotPending
	}
	c.opts.Logger.Info("console accepts a definition", "server", c.serverOf(entry), "operator", q.by, "kind", q.Kind, "name", q.Exposed, "digest", q.Digest)
	return c.opts.Lock.AcceptDigest(p.Server, entry, q.Digest)
}

// serverOf returns the server that has an entry of a lock.
func (c *Console) serverOf(of pin.Entry) string {
	for _, kind := range listed {
		if e := c.bridge.Catalog().Lookup(kind, of.Name); e != nil && pinKind(kind) == of.Kind {
			return e.Origin.Server
		}
	}
	return ""
}

// pinKind returns the kind of an entry in a lock.
func pinKind(kind mcp.Kind) pin.Kind {
	switch kind {
	case mcp.KindPrompt:
		return pin.Prompt
	case mcp.KindResource:
		return pin.Resource
	case mcp.KindResourceTemplate:
		return pin.ResourceTemplate
	}
	return pin.Tool
}

func showEntry(e *server.Entry, p *pin.Pending) shownEntry {
	members, _ := jsonscan.ReadObject(e.Definition.JSON()) // the server has checked it
	shown := shownEntry{
		Kind: e.Kind.String(), PinKind: pinKind(e.Kind), Name: e.Origin.Name, Exposed: e.Name, Title: textOf(members.Get("title")), Description: textOf(members.Get("description")),
		Trusted: e.Origin.Trusted, Tokens: len(e.Definition.JSON()) / 4, State: "offered", Digest: e.Definition.Digest(),
	}
	if e.Kind == mcp.KindTool {
		shown.Effect, shown.Schema = effectOf(e.Definition.Annotations()), string(e.Definition.InputSchema())
	}
	if p == nil {
		return shown
	}
	shown.State, shown.Digest = p.Reason, p.NewDigest
	differences, err := p.Diff()
	if err != nil {
		return shown
	}
	for _, d := range differences {
		shown.Differences = append(shown.Differences, difference{d.Member, string(d.Before), string(d.After)})
	}
	return shown
}

// effectOf says what a tool may do, by its annotations.
func effectOf(a mcp.ToolAnnotations) string {
	switch {
	case a.ReadOnlyHint != nil && *a.ReadOnlyHint:
		return "changes nothing"
	case a.DestructiveHint != nil && *a.DestructiveHint:
		return "may delete or overwrite"
	case a.DestructiveHint != nil:
		return "adds only"
	}
	return "effect unknown"
}
