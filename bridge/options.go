package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure a [Bridge]. The zero value is ready for use.
type Options struct {
	// Name returns the name that a server's tool, prompt or event gets in the bridge. It must
	// depend on its arguments only and return different names for different arguments. A
	// call to a name with the prefix Name(alias, "") waits for a server that has not been
	// listed yet. Default: [Name]. The default name of an event is ALIAS__NAME too. It keeps the dots of the name
	// and may have 128 bytes, since models do not call events.
	Name func(alias, name string) string
	// Unprefixed lets callers use the name that a tool has on its server. Exactly one server of the bridge must list a
	// tool of that name, and no tool of the bridge may have the name. The views of MCP Apps call tools by these names.
	// The call is then a call of the listed tool: guards, policies, pins and approvals get it under the name of the
	// list. No list has the other name. A server that is not running and has not run before does not count. A prefix of
	// [server.MountOptions] is still necessary.
	Unprefixed bool
	// Guards and CallMiddleware apply to every entry of the bridge: to calls of clients and to [Bridge.CallTool].
	// Guards also decide which tools [Bridge.Tools] returns. Guards of the server that the bridge is mounted on apply
	// only to calls through that server.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// StartTimeout bounds how long [Bridge.Run] waits for servers that are not required before it is ready. Entries
	// that these servers offer later are announced as a change. During this time the server that the bridge is mounted
	// on accepts clients, and their first lists and calls wait. A server may take several seconds, for example if npx
	// downloads it or if it does not answer requests before initialize. Default 20 s, which is less than clients wait
	// for a list.
	StartTimeout time.Duration
	// OnConnect is called for each connection with a server, when the server has listed its tools. tools have their names
	// in the bridge, for b.CallTool; tools that a guard hides from callers without a principal are missing. ctx ends
	// with the connection, and OnConnect must return then: the server is started again after that. OnConnect may be
	// called concurrently.
	OnConnect func(ctx context.Context, b *Bridge, alias string, tools []mcp.Tool)
	// Logger logs starts, ends and failures of servers. Default: slog.Default().
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	setDefault(&o.StartTimeout, 20*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// A Config describes one server of a bridge.
type Config struct {
	// Alias identifies the server within the bridge; see [CheckAlias].
	Alias string
	// Dialer connects to the server.
	Dialer transport.Dialer
	// Required makes [Bridge.Run] fail if the server cannot be started, or lacks a tool
	// that its options name. Run waits for it as long as ConnectTimeout and ListTimeout allow,
	// not only for [Options.StartTimeout].
	Required bool
	// Fingerprint identifies the program or URL with all its settings. [Bridge.Update] keeps a server with the same
	// fingerprint running. A server without a fingerprint is always restarted.
	Fingerprint string
	// ProxyOptions are the other options of the server.
	ProxyOptions
}

// ProxyOptions configure which entries of a server are offered, and how the server is run. The zero value offers
// everything, with one session for each user, started with the bridge and kept alive.
type ProxyOptions struct {
	// DialAs, if set, replaces the dialer and connects with the credentials of a user. The
	// principal is "" for lists and for callers that the transport does not authenticate;
	// those share one session, unless NoLists is set. Credentials of a caller are never forwarded.
	DialAs func(ctx context.Context, principal string) (transport.Dialer, error)
	// NoLists makes the bridge read no lists of the server, and open no other sessions than those of users: for a server
	// that refuses a session of nobody. It offers CachedCatalog, and later what [Bridge.Offer] gets. It needs DialAs, and
	// calls without a principal fail. Subscriptions to the server's entries get nothing.
	NoLists bool
	// Optional makes [Upstream.Run] succeed although the server cannot be started. It has
	// no effect in a bridge, where [Config.Required] decides.
	Optional bool
	// Select reports whether an entry is offered. name is the name or URI on the server.
	// Entries that are not offered cannot be called. Default: everything is offered.
	Select func(kind mcp.Kind, name string) bool
	// Rename maps names of tools and prompts on the server to the names they get.
	Rename map[string]string
	// Override replaces titles and descriptions of tools, by their names on the server.
	Override map[string]Override
	// Expect names tools that the server must have, in addition to those in Rename and
	// Override; see [MissingError].
	Expect []string

	// Lazy starts the server when it is first needed. Without CachedCatalog it is also
	// started once with the bridge, to read its lists. A call to an unknown tool or prompt
	// starts the server if the name has the server's prefix and Select and Rename do not leave
	// it out. An unknown URI starts no server
	// of a bridge that has a CachedCatalog.
	Lazy bool
	// CachedCatalog has the kinds, names and definitions that a lazy server listed in an
	// earlier run. They are offered until the server starts.
	CachedCatalog *server.Catalog
	// IdleTimeout ends a session after it has not been used for this long. Default 10
	// minutes. The session for lists is kept, unless Lazy is set.
	IdleTimeout time.Duration
	// ConnectTimeout bounds starting the server and opening a session. Default 30 s.
	ConnectTimeout time.Duration
	// ListTimeout bounds reading one list. The lists are read concurrently. If a list cannot be read
	// completely, the entries of its last complete reading, or else of the pages before the error,
	// are offered, and State.Err reports the error. The lists are then read again after
	// ListTimeout, and after twice the time whenever that fails. Default 10 s.
	ListTimeout time.Duration
	// CallTimeout ends a call when the server has reported no progress for this long. Time
	// spent on questions to the caller does not count. By default, a call of this program
	// ends at the deadline of its context, and any other call after the timeout of the
	// transport, a minute, without progress.
	CallTimeout time.Duration
	// RefreshInterval is how often lists are read again without a notification. Default 5
	// minutes. The ttlMs of a list may shorten it, to no less than a second. If notifications
	// keep coming, ten readings may be 100 ms apart, and further ones 5 s.
	RefreshInterval time.Duration
	// PingInterval is the interval of pings. Default 30 s; negative disables pings. Two
	// unanswered pings end the session, unless calls are running: then the session ends
	// once the server has been silent for as long as a call may take.
	PingInterval time.Duration

	// MaxCalls is how many calls may run on the server at the same time. Default 256.
	MaxCalls int
	// MaxQueued is how many more calls may wait. Default 1,024; negative means none.
	MaxQueued int
	// Sessions is the maximum number of sessions with the server, at least 1. Each user has one. The lists are read in that of
	// the first user who calls: if the server shows a session other entries after a login, all users see these. With DialAs
	// they are read in a session of nobody. A new session replaces the session that has been idle longest. 1 means that all
	// users share one session: set it only if the server keeps no state of one user that another user must not see. Default 64.
	Sessions int

	// Limits bounds what the server may list and ask. An entry that exceeds a limit is not offered;
	// see [State].NotOffered. If a list as a whole exceeds a limit, the entries of its last complete
	// reading are kept, and State.Err reports it. Reconnects has no effect.
	Limits client.Limits

	// Middleware and OnSession apply to all sessions with the server; see [client.Options]. [mcp.Call.Target] of a
	// forwarded call is the called entry, with its name on the server as Origin.Name. OnSession may be called
	// concurrently. Middleware runs when a forwarded call is about to be sent: one of MaxCalls is free, and the session is
	// open. [Options].CallMiddleware runs after the guards, and its context has the same values. So the time between the two
	// is spent waiting for a slot or for the start of the server, and the time in Middleware is the server's, in the legacy
	// era with the answers to its questions. A call that is sent again, because the session had ended, runs Middleware again.
	Middleware []mcp.Middleware
	OnSession  func(ctx context.Context, caller *mcp.Caller) (ended func(reason error))

	// OnLog is called for each log message of the server, from the level info on, that belongs to no single call of a client.
	// Only servers of the legacy era send such messages. [server.Options].Outgoing gets those of a call. The calls of one session
	// run one at a time; see [client.Options].
	OnLog func(ctx context.Context, message *mcp.LoggingMessageParams)

	// Launch describes how the server is started, for people who approve calls; see
	// [mcp.Origin].
	Launch string
	// Trusted says that the annotations of the server's tools may be believed.
	Trusted bool

	// Era restricts the protocol versions to use. By default the server is asked, again whenever
	// it could not be started, and otherwise its next sessions use the era of the last one.
	Era client.Era
	// Info identifies this client to the server. Default: "dovetail".
	Info mcp.Implementation
	// Logger logs starts, ends and failures. Default: the logger of the bridge, or slog.Default().
	Logger *slog.Logger
}

// An Override replaces texts in the definition of a tool.
type Override struct {
	// Title and Description replace the title and the description of the server unless they are empty.
	Title, Description string
}

func (o ProxyOptions) withDefaults() ProxyOptions {
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.ConnectTimeout, defaultConnectTimeout)
	setDefault(&o.ListTimeout, 10*time.Second)
	setDefault(&o.RefreshInterval, 5*time.Minute)
	setDefault(&o.MaxCalls, 256)
	setDefault(&o.Sessions, 64)
	o.Limits = o.Limits.WithDefaults()
	if o.PingInterval == 0 {
		o.PingInterval = 30 * time.Second
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = 1024
	}
	if o.Info.Name == "" {
		o.Info = mcp.Implementation{Name: "dovetail", Version: "0"}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

const defaultConnectTimeout = 30 * time.Second

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
