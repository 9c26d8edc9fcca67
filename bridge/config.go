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

// A Config says how one server is reached, and what is offered of it.
type Config struct {
	// Alias names the server among the others: 1 to 40 of A–Z a–z 0–9 _ - and dot, without
	// "__" and with no "_" at its end.
	Alias string
	// Dialer reaches the server.
	Dialer transport.Dialer
	// Required has [Bridge.Start] fail when this server cannot be started, or lacks what
	// its options name.
	Required bool
	// Fingerprint stands for all that decides what runs. [Bridge.Update] leaves a server
	// alone whose fingerprint is what it was; one without is always started anew.
	Fingerprint string
	// ProxyOptions are all the rest.
	ProxyOptions
}

// ProxyOptions say what is offered of a server and how it is kept. The zero value is good:
// everything, one session for each user, started with the bridge and kept alive.
type ProxyOptions struct {
	// DialAs, when set, reaches the server with a user's own credentials. The principal
	// is "" for lists and for callers that the transport does not authenticate, who
	// count as one user. What a caller has authenticated itself with is never passed on.
	DialAs func(ctx context.Context, principal string) (transport.Dialer, error)
	// Optional has a proxy's server start without it when it cannot be started. A bridge
	// has [Config.Required].
	Optional bool
	// Shared says that one session may serve all users: the server keeps nothing of one
	// that another must not see.
	Shared bool

	// Select says what is offered, by the names or URIs that the server has; nil means
	// everything. What is not offered cannot be called either.
	Select func(kind mcp.Kind, name string) bool
	// Rename gives tools and prompts other names, by those that the server has.
	Rename map[string]string
	// Override gives tools other words, by the names that the server has.
	Override map[string]Override
	// Expect names tools that the server must have, as those in Rename and Override: see
	// [MissingError].
	Expect []string

	// Lazy starts the server when it is first needed: once to learn what it offers,
	// unless CachedCatalog says so, and then when it is called. A tool or prompt that is
	// not known yet is looked up once the server has been started: the prefix of the name
	// chooses the server. A URI that is not known starts none of a bridge's servers that
	// have a CachedCatalog.
	Lazy bool
	// CachedCatalog has the kinds, names and definitions that a lazy server listed in an
	// earlier run. They are offered until the server is started.
	CachedCatalog *server.Catalog
	// IdleTimeout stops a session that nobody has used for so long. Default 10 minutes;
	// the session that lists are read by is kept, unless Lazy is set.
	IdleTimeout time.Duration
	// ConnectTimeout bounds starting the server and opening a session. Default 30 s.
	ConnectTimeout time.Duration
	// ListTimeout bounds reading all lists. Default 10 s.
	ListTimeout time.Duration
	// CallTimeout ends a call when the server has reported no progress for so long. Time
	// in which a caller is asked does not count. By default a call of this process ends at
	// the deadline of its context, and any other after the transport's timeout, a minute,
	// without progress.
	CallTimeout time.Duration
	// RefreshInterval is how often lists are read anew, whatever the server tells.
	// Default 5 minutes; a server's own ttlMs may shorten it, to a second.
	RefreshInterval time.Duration
	// PingInterval is how often a server is asked for a sign of life. Default 30 s;
	// negative means never. Two without an answer end the session, unless calls run
	// there: then it has as long as a call may take.
	PingInterval time.Duration

	// MaxCalls is how many calls may run at the server at once. Default 256.
	MaxCalls int
	// MaxQueued is how many more may wait. Default 1,024; negative means none.
	MaxQueued int
	// MaxSessions is how many sessions there can be beside the one that lists are read by:
	// one for each user, up to four where users can be asked different things. Default
	// 64. The one that has been idle longest makes room.
	MaxSessions int

	// Launch says how the server is started, for people who approve calls; see
	// [mcp.Origin].
	Launch string
	// Trusted says that the server's annotations of its tools may be believed.
	Trusted bool

	// Era restricts how the server is addressed. By default it is asked.
	Era client.Era
	// Info is who this client says it is. Default: "dovetail".
	Info mcp.Implementation
	// Logger is told of starts, ends and failures. Default slog.Default().
	Logger *slog.Logger
}

// An Override replaces what a server says of a tool.
type Override struct {
	// Title and Description replace the server's, unless they are empty.
	Title, Description string
}

func (o ProxyOptions) withDefaults() ProxyOptions {
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.ConnectTimeout, 30*time.Second)
	setDefault(&o.ListTimeout, 10*time.Second)
	setDefault(&o.RefreshInterval, 5*time.Minute)
	setDefault(&o.MaxCalls, 256)
	setDefault(&o.MaxSessions, 64)
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

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
