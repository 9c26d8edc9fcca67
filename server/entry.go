package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/internal/effects"
)

// An Entry is one tool, prompt, resource, resource template, skill or event that a server offers. Create one with
// [NewTool] and similar functions, or as a literal. Entries are shared between goroutines: change a
// copy, as [Catalog.Map] does.
type Entry struct {
	// Target describes the entry. It is the target of calls to the entry.
	mcp.Target
	// Handle answers a call that was resolved to this entry. It returns errors unchanged. The
	// server that received the call converts them to results and protocol errors.
	Handle mcp.Handler
	// Complete completes an argument of the prompt, or a variable of the template. nil means that
	// there are no completions.
	Complete mcp.Handler
	// Match reports whether a URI is one of a resource template, or of a file of a skill that need
	// not be listed as a resource. Handle of a skill answers resources/read for such files.
	Match func(uri string) bool
	// Visible reports whether a caller sees the entry; nil means that all callers do. A hidden
	// entry is in no list, and calls, completions and subscriptions get the error for an unknown
	// name. A panic hides the entry. To hide an entry that is in a catalog already, use
	// [Entry.Wrap] with a guard: on a copy of such an entry, a new Visible affects lists and
	// completions only.
	Visible func(ctx context.Context, caller *mcp.Caller) bool
	// Subscribe starts to report changes of the resource with the call's URI, until stop is called. For
	// an event, it checks whether the caller may still subscribe.
	// nil means that changes are reported without it. ctx is the context of the subscribe request,
	// not of the subscription.
	Subscribe func(ctx context.Context, call *mcp.Call) (stop func(), err error)
	// Task says whether calls of the tool may continue as tasks.
	Task TaskMode
	// Tasks answers tasks/get, tasks/update and tasks/cancel for the tasks that another server keeps:
	// for a caller that supports tasks, Handle may return an *[mcp.Task] with the id there, of at most
	// 4 KiB. The server that received the call replaces the id by one that is valid for the same
	// principal only, while the principal sees the entry, and at most for a year. The calls of Tasks
	// have the id that Handle has returned. Guards do not apply to them, except that Visible must show
	// the entry. For a caller that subscribes to a task, the server calls Tasks with tasks/get at the
	// interval of the task, and notifies the caller of changes, for at most 100 tasks of one principal.
	// nil means that Handle returns no tasks.
	Tasks mcp.Handler
	// Forwards says that Handle only passes calls of the tool on, to another entry or server, and may begin
	// again, also after one approval: Handle must store what it has sent ([mcp.Call.Store]). Otherwise,
	// Handle of a call that a guard has made a task begins at most once, as the function of a [Tool]
	// without MaxRestarts does.
	Forwards bool

	pending  *pending     // nil once the entry is in a catalog
	prepare  *preparation // of the arguments of a tool, also behind a mount; may be nil
	blocking bool         // the function of the tool is blocking
	composed bool         // Visible includes the guards, and calls are checked against it
}

// A pending holds what will be composed into the handlers of an entry.
type pending struct {
	guards     []mcp.Guard
	middleware []mcp.Middleware
	// bind returns the handler, which applies the given middleware after decoding the arguments.
	// nil means that Entry.Handle is the handler.
	bind    func(s *Server, middleware mcp.Middleware) mcp.Handler
	timeout time.Duration

	dependencies []reflect.Type      // types that the function takes
	argument     string              // of a completion: the completed argument
	values       map[string][]string // allowed values of arguments that have an enum
}

// Wrap returns a copy of the entry with additional guards and middleware, the first outermost. If
// the entry is in no catalog yet, they apply like Guards and CallMiddleware of a [Tool]: middleware
// runs after the arguments are validated. Otherwise they apply before that.
func (e *Entry) Wrap(guards []mcp.Guard, middleware []mcp.Middleware) *Entry {
	if len(guards)+len(middleware) == 0 {
		return e
	}
	wrapped := *e
	wrapped.pending = &pending{}
	if e.pending != nil {
		*wrapped.pending = *e.pending
	}
	wrapped.pending.guards = slices.Concat(guards, wrapped.pending.guards)
	wrapped.pending.middleware = slices.Concat(middleware, wrapped.pending.middleware)
	return &wrapped
}

// withRequirements returns a copy of the entry with more scopes and metadata. The entry's own
// metadata takes precedence.
func (e *Entry) withRequirements(scopes []string, metadata map[string]any) *Entry {
	if len(scopes)+len(metadata) == 0 {
		return e
	}
	with := *e
	with.Scopes = slices.Clone(scopes)
	for _, scope := range e.Scopes {
		if !slices.Contains(with.Scopes, scope) {
			with.Scopes = append(with.Scopes, scope)
		}
	}
	with.Metadata = maps.Clone(metadata)
	if with.Metadata == nil {
		with.Metadata = make(map[string]any, len(e.Metadata))
	}
	maps.Copy(with.Metadata, e.Metadata)
	return &with
}

// compose builds the handlers of a pending entry, so that each middleware is called once. s is the
// server of the functions, or nil.
func (e *Entry) compose(s *Server) *Entry {
	d := e.pending
	if d == nil && (e.composed || e.Visible == nil) {
		return e
	}
	done := *e
	done.pending, done.composed = nil, true
	if d == nil {
		d = &pending{}
	}
	t, guards, shown := &done.Target, d.guards, e.Visible
	if !e.composed && e.Visible != nil { // enforce it on calls, as Visible of a guard
		guards = append(slices.Clip(guards), mcp.Guard{Name: "Entry.Visible", Visible: func(ctx context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
			return e.Visible(ctx, caller)
		}})
		shown = nil
	}
	// Each line runs before the next one, and Options.Middleware before all of them.
	limit := newTimeLimit(s, d.timeout, t)
	done.Handle = limit.begin(
		e.prepare.of(e).before( // changes the arguments
			authorize(guards, t, // Check, or Visible of a guard without Check
				limit.answer(
					e.withoutPublicCache(guards,
						e.bind(s, // validates and decodes the arguments
							chain(
								d.guards, // Run
								d.middleware,
							))))))) // the function
	done.Complete = authorize(guards, t, applyMiddleware(chain(d.guards, d.middleware), e.Complete))
	done.Visible = combineVisible(guards, t, shown)
	done.Subscribe = authorizeSubscribe(guards, t, e.Subscribe)
	if e.Kind == mcp.KindTool && e.Task == TaskForbidden && slices.ContainsFunc(d.guards, func(g mcp.Guard) bool { return g.Waits }) {
		done.Task = TaskOptional
	}
	return &done
}

// bind returns a handler that validates the arguments, applies the middleware and calls the function. Entries without
// pending.bind are validated by Handle, after the middleware.
func (e *Entry) bind(s *Server, middleware mcp.Middleware) mcp.Handler {
	if e.pending != nil && e.pending.bind != nil {
		return e.pending.bind(s, middleware)
	}
	function := e.Handle
	if e.Kind == mcp.KindTool && !e.composed && !e.Forwards && function != nil {
		function = beginsOnce(function)
	}
	return applyMiddleware(middleware, function)
}

// beginsOnce returns a handler that begins at most once for a call that runs as a task.
func beginsOnce(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if err := beginFunction(ctx, call, 0); err != nil {
			return nil, err
		}
		return next(ctx, call)
	}
}

// check rejects an entry that could not be called or listed.
func (e *Entry) check() error {
	switch {
	case e == nil:
		return errors.New("an entry is nil")
	case e.Kind < mcp.KindTool || e.Kind >= kindCount:
		return fmt.Errorf("the entry %.80q has no kind", e.Name)
	case e.Definition == nil && e.isListed():
		return fmt.Errorf("the %v %.80q has no definition", e.Kind, e.Name)
	case e.Handle == nil && e.isListed() && (e.pending == nil || e.pending.bind == nil):
		return fmt.Errorf("the %v %.80q has no function", e.Kind, e.Name)
	}
	if kinds[e.Kind].named {
		if err := checkName(e.Kind, e.Name); err != nil {
			return err
		}
	} else if e.Name == "" {
		return fmt.Errorf("a %v has no URI", e.Kind)
	}
	if e.pending != nil {
		if err := checkGuards(e.pending.guards); err != nil {
			return fmt.Errorf("%v %q: %w", e.Kind, e.Name, err)
		}
	}
	return nil
}

// isListed reports whether the entry is in a list, and is not a completion.
func (e *Entry) isListed() bool { return e.pending == nil || e.pending.argument == "" }

// maxName is the maximum length in bytes of the name of a tool, prompt or event. MCP 2025-11-25,
// server/tools.
const maxName = 128

// checkName rejects names that clients may not accept.
func checkName(kind mcp.Kind, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%v %.40q: a name has 1 to %d characters, not %d", kind, name, maxName, len(name))
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return fmt.Errorf("%v %q: a name consists of A–Z a–z 0–9 _ - and dot, not of %q", kind, name, c)
		}
	}
	return nil
}

// checkGuards rejects guards without any function.
func checkGuards(guards []mcp.Guard) error {
	for _, g := range guards {
		if g.Visible == nil && g.Check == nil && g.Run == nil {
			return fmt.Errorf("the guard %q has no function", g.Name)
		}
	}
	return nil
}

// chain returns one middleware that applies the Run of guards and then middleware, the first
// outermost. It returns nil if there are none.
func chain(guards []mcp.Guard, middleware []mcp.Middleware) mcp.Middleware {
	var all []mcp.Middleware
	for _, g := range guards {
		if g.Run != nil {
			all = append(all, g.Run)
		}
	}
	all = append(all, middleware...)
	if len(all) == 0 {
		return nil
	}
	return func(next mcp.Handler) mcp.Handler {
		for _, m := range slices.Backward(all) {
			next = m(next)
		}
		return next
	}
}

// applyMiddleware returns m(next). It returns next if m or next is nil.
func applyMiddleware(m mcp.Middleware, next mcp.Handler) mcp.Handler {
	if m == nil || next == nil {
		return next
	}
	return m(next)
}

// authorize returns a handler that calls next if all guards allow the call.
func authorize(guards []mcp.Guard, t *mcp.Target, next mcp.Handler) mcp.Handler {
	guards = decidingGuards(guards)
	if len(guards) == 0 || next == nil {
		return next
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		for i := range guards {
			if err := checkGuard(ctx, &guards[i], t, call); err != nil {
				return nil, err
			}
		}
		return next(ctx, call)
	}
}

// decidingGuards returns the guards that have Check or Visible.
func decidingGuards(guards []mcp.Guard) []mcp.Guard {
	return slices.DeleteFunc(slices.Clone(guards), func(g mcp.Guard) bool { return g.Check == nil && g.Visible == nil })
}

// checkGuard asks one guard about a call. The error is a *[RefusedError], or a question to the
// caller.
func checkGuard(ctx context.Context, g *mcp.Guard, t *mcp.Target, call *mcp.Call) error {
	if g.Check == nil {
		if !isVisible(ctx, g, call.Caller, t) {
			return &RefusedError{Guard: g.Name, Hidden: true, Err: errHidden}
		}
		return nil
	}
	err := callRecovered(func() error { return g.Check(ctx, call) })
	if _, asks := mcp.AsInputRequired(err); err == nil || asks {
		return err
	}
	if stated, ok := err.(*mcp.Refusal); ok && stated.Guard == "" {
		err = &mcp.Refusal{Reason: stated.Reason, Guard: g.Name}
	}
	return &RefusedError{Guard: g.Name, Err: err}
}

var errHidden = errors.New("the caller may not see it")

// isVisible asks one guard whether a caller sees an entry. A panic hides the entry.
func isVisible(ctx context.Context, g *mcp.Guard, caller *mcp.Caller, t *mcp.Target) (shown bool) {
	err := callRecovered(func() error {
		shown = g.Visible(ctx, caller, t)
		return nil
	})
	return shown && err == nil
}

// combineVisible combines Visible of guards and of an entry. It returns nil if all callers see the
// entry.
func combineVisible(guards []mcp.Guard, t *mcp.Target, inner func(context.Context, *mcp.Caller) bool) func(context.Context, *mcp.Caller) bool {
	hiding := slices.DeleteFunc(slices.Clone(guards), func(g mcp.Guard) bool { return g.Visible == nil })
	if len(hiding) == 0 {
		return inner
	}
	return func(ctx context.Context, caller *mcp.Caller) bool {
		for i := range hiding {
			if !isVisible(ctx, &hiding[i], caller, t) {
				return false
			}
		}
		return inner == nil || inner(ctx, caller)
	}
}

// authorizeSubscribe returns an [Entry].Subscribe that calls next if all guards allow the call.
func authorizeSubscribe(guards []mcp.Guard, t *mcp.Target, inner func(context.Context, *mcp.Call) (func(), error)) func(context.Context, *mcp.Call) (func(), error) {
	guards = decidingGuards(guards)
	if len(guards) == 0 {
		return inner
	}
	return func(ctx context.Context, call *mcp.Call) (stop func(), err error) {
		for i := range guards {
			if err := checkGuard(ctx, &guards[i], t, call); err != nil {
				return nil, err
			}
		}
		if inner == nil {
			return func() {}, nil
		}
		return inner(ctx, call)
	}
}

// decodeAndRun returns a handler that decodes the arguments of a call and calls run with a pointer to them. The
// middleware is applied between the two.
func decodeAndRun(s *Server, middleware mcp.Middleware, decode func(ctx context.Context, call *mcp.Call) (any, error), run func(ctx context.Context, r *Request, in any) (mcp.Result, error)) mcp.Handler {
	if middleware == nil {
		return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
			defer recoverPanic(&err)
			in, err := decode(ctx, call)
			if err != nil {
				return nil, err
			}
			r := &Request{ctx: ctx, call: call, server: s}
			result, err = run(effects.Begin(ctx, call), r, in)
			r.warnUnasked(ctx, err)
			return result, functionErrorOf(err)
		}
	}
	key := new(byte) // of the decoded arguments in call.Get
	inner := middleware(func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		defer recoverPanic(&err)
		arguments, ok := call.Get(key).(*decodedArguments)
		if !ok || !arguments.matches(call) {
			return nil, errArgumentsChanged
		}
		r := &Request{ctx: ctx, call: call, server: s}
		result, err = run(effects.Begin(ctx, call), r, arguments.value)
		r.warnUnasked(ctx, err)
		return result, functionErrorOf(err)
	})
	return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		defer recoverPanic(&err)
		in, err := decode(ctx, call)
		if err != nil {
			return nil, err
		}
		call.Set(key, &decodedArguments{call.Member("arguments"), call.Member("uri"), in})
		return inner(ctx, call)
	}
}

// decodedArguments are the arguments of a call, raw and decoded.
type decodedArguments struct {
	arguments, uri []byte
	value          any // a pointer
}

func (d *decodedArguments) matches(call *mcp.Call) bool {
	return bytes.Equal(call.Member("arguments"), d.arguments) && bytes.Equal(call.Member("uri"), d.uri)
}

// errArgumentsChanged ends a call if a middleware has changed the arguments after validation: a
// guard, or a person, has approved other arguments.
var errArgumentsChanged = &jsonrpc.Error{
	Code: jsonrpc.InternalError, Message: "a middleware of the server has changed the arguments after they were validated",
}

// withoutPublicCache makes results private that are read behind guards. A shared cache would serve
// them to callers that the guards refuse.
func (e *Entry) withoutPublicCache(guards []mcp.Guard, next mcp.Handler) mcp.Handler {
	if len(guards) == 0 || e.Kind == mcp.KindTool || e.Kind == mcp.KindPrompt {
		return next
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		result, err := next(ctx, call)
		if err != nil {
			return nil, err
		}
		return forcePrivate(result)
	}
}

func forcePrivate(result mcp.Result) (mcp.Result, error) {
	var text []byte
	switch result := result.(type) {
	case nil:
		return nil, nil
	case *mcp.ReadResourceResult:
		if result.Scope != mcp.CachePublic {
			return result, nil
		}
		private := *result
		private.Scope = mcp.CachePrivate
		return &private, nil
	case mcp.Raw:
		text = result
	default:
		var err error
		if text, err = result.AppendJSON(nil); err != nil {
			return nil, err
		}
	}
	members, err := jsonscan.ReadObject(text)
	if err != nil || members.Get("cacheScope") == nil {
		return result, nil // the result names no scope, or is invalid
	}
	text, err = jsonscan.Splice(nil, text, jsonscan.Edit{Name: "cacheScope", Value: jsonscan.AppendString(nil, string(mcp.CachePrivate))})
	return mcp.Raw(text), err
}

// callRecovered calls fn and returns a panic as an error.
func callRecovered(fn func() error) (err error) {
	defer recoverPanic(&err)
	return fn()
}

// recoverPanic sets *err to a *panicError after a panic. It must be deferred.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{p, debug.Stack()}
	}
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// listedURI returns the URI of the entry if uri is an equivalent spelling of it, so that guards and functions do not
// depend on the spelling. It returns uri for other entries, such as templates.
func (e *Entry) listedURI(uri string) string {
	if e.Kind == mcp.KindResource && uri != e.Name && uritemplate.Equivalent(uri) == uritemplate.Equivalent(e.Name) {
		return e.Name
	}
	return uri
}
