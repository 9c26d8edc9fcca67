package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server/internal/blocking"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Options configures a [Server]. The zero value is valid.
type Options struct {
	// Instructions is text for models that explains how to use the server. Clients get it when they
	// connect. Default: none.
	Instructions string
	// PageSize is the maximum number of entries in one page of a list. 0 means that lists are not
	// split into pages.
	PageSize int
	// TopLevelTags lists the tags of the server's own entries also as the member "tags", sorted, where
	// clients of lauren-mcp read them. By default tags are only in _meta, at [mcp.MetaTags].
	TopLevelTags bool
	// RegistrationOrder lists the server's own entries in the order of their registration. By default, tools, prompts and
	// events are listed by name, and resources by URI, so that a program that registers them in another order each time, such as
	// that of a map, does not invalidate the prompt caches of its clients. Templates and skills have the order of
	// registration, since the first that matches a URI is read. Entries of mounts follow, in the order that they have there.
	RegistrationOrder bool
	// CacheHint says how long, and for whom, clients may cache lists and the server's description
	// (2026-07-28). By default they may not. Lists that differ between callers are always private.
	CacheHint mcp.CacheHint
	// LogLevel is the least severe level of the log messages that a client gets before it sets a level itself, with
	// logging/setLevel (until 2025-11-25). Default: info. Since 2026-07-28 each request names its level, and a client
	// gets no messages for a request that names none.
	LogLevel mcp.LoggingLevel
	// Capabilities replaces the declared capabilities. By default the server declares logging and
	// what is registered or mounted. A server that is still starting declares all kinds of entries.
	Capabilities *mcp.ServerCapabilities
	// StateKeys encrypt the state that a client carries between the runs of a call that asks
	// questions. The first key encrypts, and all keys decrypt. Each key has at least 32 bytes.
	// Replicas with the same keys can continue each other's calls. They also encrypt tasks and
	// occurrences of events in the Store. To replace a key, add the new one as the last at all replicas,
	// then make it the first, and remove the old one when what it has encrypted has expired: an hour
	// for calls that ask, the longest [Tool].TTL for tasks, and the LogAge of the store for events.
	// Default: with a Store, keys that the replicas create there; they change the key of calls that ask
	// every day, and keep the one for tasks and events. What these have encrypted does not open with
	// StateKeys that are set later. Without a Store, one random key for this process.
	StateKeys [][]byte
	// Store is the state that the replicas of the server share, so that any replica serves any
	// request: the sessions of clients of earlier versions over streamable HTTP, the events of their
	// streams, StateKeys, and notifications of changes to the server's own lists and resources, which
	// reach the subscribers of all replicas, occurrences of events, and tasks (see [TaskMode]), which any
	// replica runs. A person who can read the store can read occurrences and the state of calls that ask,
	// unless StateKeys are set. The caller closes it after the server and its endpoints. Default: none; a
	// session belongs to the process that has opened it.
	Store store.Store
	// Webhooks delivers events to callback URLs; see package server/webhook. It keeps its subscriptions
	// in a store that the replicas share. Clients then may subscribe with the delivery mode webhook, if
	// they are authenticated. An occurrence that cannot be delivered is read again from the log of Store:
	// its LogAge, by default 30 minutes, must be longer than an occurrence is tried again, by default 15
	// minutes. Default: no webhooks.
	Webhooks delivery.Deliverer
	// Middleware handles every request except requests of the protocol itself, such as initialize, ping
	// and subscriptions. It also sees lists and calls that are refused. The first is outermost. The
	// error of a tool's function, and of invalid arguments, is an error there too, a *[FunctionError]:
	// the server converts it to a result afterwards. The failure of a proxied tool is a result with
	// IsError. A refusal by a guard is a *[RefusedError], a question an *[mcp.InputRequired], and a
	// protocol error a *[jsonrpc.Error]; clients see any other error as an [InternalError]. A call that
	// asks is handled once for each run.
	// [mcp.Call.Target] returns the entry that a call is for. If a middleware passes on a call with
	// another name, the server looks that name up.
	Middleware []mcp.Middleware
	// Outgoing is called, in order, for each message that the server sends of its own accord.
	Outgoing []Outgoing
	// OnSession is called when a client has opened a session, with the description of the client and
	// the context of its request: see [transport.Header] and [transport.SessionID]. The
	// function that it returns, if not nil, is called once when the session has ended, with nil.
	// Version 2026-07-28 has no sessions. With a Store, a session is opened in each replica that gets
	// its requests. Neither function may block. They are called concurrently.
	OnSession func(ctx context.Context, caller *mcp.Caller) (ended func(reason error))
	// Guards and CallMiddleware apply to every entry that is registered or mounted. They are
	// outside the entry's own.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that every call needs in addition to the scopes of the entry. Metadata is
	// added to the target of every entry. A key that the entry has itself keeps the entry's value.
	Scopes   []string
	Metadata map[string]any
	// Dependencies are started in order before the server answers calls, and stopped in reverse
	// order at shutdown. See [Provide].
	Dependencies []Dependency
	// MaxTasks is how many calls run as tasks at the same time, at this replica. More tasks wait. One
	// client may have half as many tasks that have not ended, and at least 1. More are refused with
	// [jsonrpc.Busy], so that one client does not block the others. A client is a principal, or without
	// one a network; see [mcp.Caller]. A task that its client has lost
	// ends at its TTL at the latest, and counts until then. Default 1000.
	MaxTasks int
	// ValidationMemory is how many bytes the validation of large arguments and results may use at a
	// time. A call waits while other calls use them, and fails if its arguments alone need more.
	// Arguments that need less than 64 KiB are not counted. Default: 48 MiB.
	// Negative: no limit, which lets a caller use about 100 times the memory of its message.
	ValidationMemory int64
	// RetainedBytes is how many bytes clients may leave behind in this process: handshakes of sessions,
	// watched resources, open subscriptions and streams of events, functions that run after their timeout, calls of blocking tools,
	// and tasks. Tasks may use half of them, and calls of blocking tools a quarter. With a Store, tasks do not count for the process: half of the bytes are a limit of
	// their own, for the tasks of all replicas. Webhooks have a limit of their own, of as many bytes. A request for which there is no room is refused with
	// [jsonrpc.Busy]. While more than half of the bytes are used, one client has at most an eighth, so
	// that there is room for others: an authenticated principal, or without one a network, see
	// [mcp.Caller]. The process needs up to three times as much memory. 0 means 64 MiB. Negative: no
	// limit, which is not safe where strangers can connect.
	RetainedBytes int64
	// Logger receives messages for the operator: panics, errors that clients do not see, refusals
	// of guards, collisions of names, and questions that were not asked because a function did not
	// return their errors; see [Elicit]. Default: slog.Default().
	Logger *slog.Logger
}

// An Outgoing is called before a server sends a message of its own to a client: a notification (of progress, log
// messages, changes, events and the states of tasks), or a question (elicitation/create, sampling/createMessage,
// roots/list), also in version 2026-07-28, in which questions are part of a result. Messages of mounted servers and
// bridges are among them; acknowledgements, cancellations, deliveries to webhooks, and questions of tasks that another
// server keeps are not.
//
// params is a JSON object, which must not be changed. An Outgoing returns the params to send. If it returns an error,
// the message is not sent: a notification is left out, and logged for the operator at the level debug; a call that asks
// fails. It is called concurrently. While it runs, the other messages of the call wait, so it must not send anything for
// the call.
type Outgoing func(ctx context.Context, to *mcp.Caller, method string, params json.RawMessage) (json.RawMessage, error)

// A retainer is an [Options].Webhooks whose subscriptions count toward [Options].RetainedBytes. Those of others are limited by
// their own options only.
type retainer interface{ Retain(r *quota.Retained) }

// defaultRetained is the default of [Options].RetainedBytes.
const defaultRetained = 64 << 20

// A Server offers tools, resources, prompts and completions to any number of clients. Create one
// with [New]. All methods may be called concurrently.
type Server struct {
	info     mcp.Implementation
	options  Options
	registry *registry
	mounts   atomic.Pointer[[]*mount]
	merged   atomic.Pointer[Catalog] // the last merged catalog; nil if nothing is mounted
	// from the server's entries to the entries of its Provider
	exported     *mapping
	life         lifecycle
	changes      changes
	rootsClients rootsClients
	exchange     *exchange // nil without a store
	features     []*feature
	methods      map[string]*method // by name
	handle       mcp.Handler        // Options.Middleware, then dispatch
	stateKey     stateKey           // of calls that ask, and of messages between replicas
	dataKey      *state.Key         // of tasks and events
	store        serverStore
	era          *era.Server

	// the state of features
	tasks        tasks
	blocking     *blocking.Calls
	webhooks     webhooks
	eventStreams *quota.Quota

	forms    sync.Map // reflect.Type to *form
	memory   *schema.Memory
	retained *quota.Retained // by clients
	// closed by Shutdown
	stopping chan struct{}
	stopOnce sync.Once
	calls    callCounter
	late     lateFunctions

	recheckFunc func(ctx context.Context, t *mcp.Target) error // the method recheck, allocated once
}

var _ transport.Binder = (*Server)(nil)

// New returns a server without entries. opts may be nil. New panics if the options are invalid: a
// key in StateKeys that is too short, an unknown LogLevel, a guard without functions, or two dependencies of one type.
func New(info mcp.Implementation, opts *Options) *Server {
	s := &Server{info: info, stopping: make(chan struct{})}
	if opts != nil {
		s.options = *opts
		s.options.Guards, s.options.CallMiddleware = slices.Clone(opts.Guards), slices.Clone(opts.CallMiddleware)
	}
	if s.options.Logger == nil {
		s.options.Logger = slog.Default()
	}
	own, err := token.NewRing(s.options.StateKeys...)
	if err != nil {
		err = fmt.Errorf("StateKeys: %w", err)
	}
	if level := s.options.LogLevel; level != "" && !level.Valid() {
		err = errors.Join(err, fmt.Errorf("LogLevel: there is no level %q", level))
	}
	if err := errors.Join(err, checkGuards(s.options.Guards), checkDependencies(s.options.Dependencies)); err != nil {
		panic(fmt.Sprintf("server.New: %v", err))
	}
	if s.options.MaxTasks <= 0 {
		s.options.MaxTasks = defaultMaxTasks
	}
	s.memory = schema.NewMemory(s.options.ValidationMemory)
	s.retained = quota.NewRetained(s.retainedBytes())
	if webhooks, ok := s.options.Webhooks.(retainer); ok {
		webhooks.Retain(quota.NewRetained(s.retainedBytes())) // subscriptions in the store count without a limit, and must leave room for sessions
	}
	s.store.shared = s.options.Store
	s.registry = &registry{server: s}
	s.exported = newMapping(s.export)
	s.life.server = s
	s.eventStreams = quota.New("streams", maxEventStreams, maxStreamsPerPrincipal)
	s.recheckFunc = s.recheck
	s.handle = applyMiddleware(chain(nil, s.options.Middleware), s.dispatch)
	s.setKeys(own)
	if s.options.Store != nil {
		s.exchange = newExchange(s)
	}
	s.tasks.polls = quota.New("subscriptions to tasks", maxTaskPolls, maxTaskPollsPerPrincipal)
	s.blocking = s.newBlockingCalls()
	s.features, s.methods = features, newMethods(features)
	s.era = era.NewServer(core{s}, s.stateKey, s.retained)
	return s
}

func (s *Server) retainedBytes() int64 { return cmp.Or(s.options.RetainedBytes, defaultRetained) }

// halfRetained returns half of what clients may leave behind, and a negative number if there is no limit.
func (s *Server) halfRetained() int64 { return min(s.retainedBytes(), s.retainedBytes()/2) }

// Info returns the name and version that clients get. The caller must not change its icons.
func (s *Server) Info() mcp.Implementation { return s.info }

// Bind returns the handler for one link. It is called by transports.
func (s *Server) Bind(link transport.Link) jsonrpc.Handler { return s.era.Bind(link) }

// Catalog returns the entries that the server offers now, including the entries of mounts. It does not
// block. It returns the same pointer until an entry changes.
func (s *Server) Catalog() *Catalog {
	mounts := s.mounted()
	if len(mounts) == 0 {
		return s.registry.catalog()
	}
	if merged := s.merged.Load(); merged != nil && s.isMerged(merged, mounts) {
		return merged
	}
	parts := append(make([]Part, 0, 1+len(mounts)), Part{serverPart, s.registry.catalog()})
	for _, m := range mounts {
		parts = append(parts, m.part())
	}
	for {
		before := s.merged.Load()
		merged := Merge(before, parts...)
		if merged == before || s.merged.CompareAndSwap(before, merged) {
			s.logCollisions(before, merged)
			return merged
		}
	}
}

// isMerged reports whether a catalog was merged from the current catalogs. It allocates nothing, since each call looks up
// the catalog.
func (s *Server) isMerged(c *Catalog, mounts []*mount) bool {
	if len(c.parts) != 1+len(mounts) || c.parts[0].Catalog != s.registry.catalog() {
		return false
	}
	for i, m := range mounts {
		if c.parts[1+i].Catalog != m.part().Catalog {
			return false
		}
	}
	return true
}

// serverPart is the owner, in a [CollisionError], of the entries that are registered with the
// server.
const serverPart = "the server itself"

func (s *Server) mounted() []*mount {
	if mounts := s.mounts.Load(); mounts != nil {
		return *mounts
	}
	return nil
}

// maxLogged is how many collisions of one change are logged.
const maxLogged = 100

// logCollisions logs the collisions that the previous catalog did not have.
func (s *Server) logCollisions(before, now *Catalog) {
	if before == now {
		return
	}
	var known []*CollisionError
	if before != nil {
		known = before.collisions
	}
	for i, collision := range newCollisions(known, now.collisions) {
		if i == maxLogged {
			s.options.Logger.Warn("more entries are not offered", "collisions", len(now.collisions))
			break
		}
		s.options.Logger.Warn("an entry is not offered", "error", collision)
	}
}

// Serve answers one call of any method except the methods of the protocol itself. It waits until the
// server has started. It may be called concurrently, with a different call each time.
//
// The error is an *[mcp.InputRequired], the error of ctx, or an error in which errors.As finds a
// *[jsonrpc.Error], such as *[InternalError] and *[RefusedError].
func (s *Server) Serve(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if !s.calls.begin() {
		if s.blocking.Holds(call.ID()) {
			return nil, blocking.ErrShutdown
		}
		return nil, errStopping
	}
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
		if err != nil {
			result, err = s.convertError(ctx, call, err)
		}
		s.calls.end()
	}()
	if err := call.ArgumentsError(); err != nil {
		return nil, &era.RefusedArguments{Err: err}
	}
	entry, err := s.resolve(ctx, call)
	switch {
	case len(s.options.Middleware) > 0:
		call.Set(s, s.newResolution(call, entry, err))
		return s.handle(ctx, call)
	case err != nil:
		return nil, err
	}
	return s.invoke(ctx, call, entry)
}

// errStopping says that the call was not executed, so that the caller may send it to another replica.
var errStopping = &jsonrpc.Error{Code: jsonrpc.Busy, Message: "the server is shutting down"}

// A resolution is the result of looking up a name for a caller. It is stored as a value of the call.
type resolution struct {
	name   []byte
	caller *mcp.Caller
	entry  *Entry
	err    error
}

func (s *Server) newResolution(call *mcp.Call, entry *Entry, err error) resolution {
	_, name, _ := s.target(call)
	return resolution{name, call.Caller, entry, err}
}

// resolve looks up the entry that a call is for, and attaches its target to the call. It returns
// nil for lists and for unknown names. The error says that the call is malformed, that a server
// could not be started, or that the caller sees several variants.
func (s *Server) resolve(ctx context.Context, call *mcp.Call) (*Entry, error) {
	kind, name, err := s.target(call)
	if kind == 0 || err != nil {
		return nil, err
	}
	uri := ""
	lookup, catalog := s.methods[call.Method()].lookup, s.Catalog()
	if kind == mcp.KindResource || lookup != nil {
		uri = jsonscan.Unquote(name)
	}
	var entry *Entry
	if lookup != nil {
		entry = lookup(catalog, uri)
	} else if entry = catalog.lookupRaw(kind, name); entry == nil || catalog.hasVariants(entry) {
		if entry, err = s.find(ctx, call.Caller, kind, jsonscan.Unquote(name)); err != nil {
			return nil, err
		}
		if entry != nil {
			if err := authorizeAs(ctx, call, entry); err != nil {
				return nil, err
			}
		}
	}
	if entry == nil {
		call.Resolve(nil, uri, nil)
		return nil, nil
	}
	call.Resolve(&entry.Target, entry.listedURI(uri), s.recheckFunc)
	return entry, nil
}

// find looks up an entry for a caller, in the lists and then with [Catalog.Resolve]. If that has
// started a server, the new catalog decides. It returns nil if there is no such entry. An entry
// without variants is returned even if the caller does not see it: its guards decide.
func (s *Server) find(ctx context.Context, caller *mcp.Caller, kind mcp.Kind, name string) (*Entry, error) {
	find := func(c *Catalog) (listed *Entry, isListed bool, err error) {
		if listed = c.Lookup(kind, name); listed != nil && c.hasVariants(listed) {
			listed, err = c.seenBy(ctx, caller, listed)
			return listed, true, err
		}
		return listed, listed != nil, nil
	}
	before := s.Catalog()
	if listed, ok, err := find(before); ok {
		return listed, err
	}
	entry, err := before.Resolve(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	now := s.Catalog()
	if listed, ok, err := find(now); ok {
		return listed, err
	}
	if entry == nil && now != before {
		return now.Resolve(ctx, kind, name)
	}
	return entry, nil
}

// authorizeAs authorizes a call under the name of its entry. The transport has authorized it under
// the caller's name, for which no scopes were known, or no input schema.
func authorizeAs(ctx context.Context, call *mcp.Call, entry *Entry) error {
	name := jsonscan.AppendString(nil, entry.Name)
	var params []byte
	switch {
	case entry.Kind == mcp.KindTool, call.Method() != mcp.MethodComplete && entry.Kind == mcp.KindPrompt:
		params = fmt.Appendf(nil, `{"name":%s}`, name)
	case call.Method() == mcp.MethodComplete && entry.Kind == mcp.KindPrompt:
		params = fmt.Appendf(nil, `{"ref":{"type":"ref/prompt","name":%s}}`, name)
	default: // URIs are not renamed
		return nil
	}
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(0), call.Method(), params)
	if err != nil {
		return err
	}
	return transport.Authorize(context.WithValue(ctx, entryContextKey{}, entry), req)
}

// entryContextKey is the key of the entry of a call, in the context of its authorization.
type entryContextKey struct{}

func (s *Server) recheck(ctx context.Context, t *mcp.Target) error {
	return s.Catalog().recheck(ctx, t)
}

// dispatch is the innermost handler of Options.Middleware. It looks the entry up again if a
// middleware has changed the name or the caller.
func (s *Server) dispatch(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	found, ok := call.Get(s).(resolution)
	if _, name, _ := s.target(call); !ok || call.Caller != found.caller || !bytes.Equal(name, found.name) {
		found.entry, found.err = s.resolve(ctx, call)
	}
	if found.err != nil {
		return nil, found.err
	}
	return s.invoke(ctx, call, found.entry)
}

func stringMember(call *mcp.Call, path ...string) (string, error) {
	raw := call.Member(path...)
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", invalidParams("%s must be a string", path[len(path)-1])
	}
	return jsonscan.Unquote(raw), nil
}

// InputSchema returns the input schema of a tool as it is listed, or nil if there is no such tool.
// Transports use it to find arguments that are copied into HTTP headers. If the tool has variants,
// InputSchema returns nil, except for the context in which the server has called the authorizer of
// the request ([transport.Authorize]) again: then it is the schema of the chosen variant. It takes no
// lock. The caller must not change the result.
func (s *Server) InputSchema(ctx context.Context, tool string) json.RawMessage {
	if chosen, ok := ctx.Value(entryContextKey{}).(*Entry); ok && chosen.Kind == mcp.KindTool && chosen.Name == tool {
		return chosen.Definition.InputSchema()
	}
	catalog := s.Catalog()
	if e := catalog.Lookup(mcp.KindTool, tool); e != nil && !catalog.hasVariants(e) {
		return e.Definition.InputSchema()
	}
	return nil
}
