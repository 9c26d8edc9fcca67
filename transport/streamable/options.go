package streamable

import (
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Defaults of [Options].
const (
	// DefaultMaxMessage is the longest request body in bytes.
	DefaultMaxMessage = 4 << 20
	// DefaultWriteTimeout is how long a client may take to accept one write.
	DefaultWriteTimeout = 10 * time.Second
	// DefaultKeepAlive is how long a stream is silent before a comment is sent.
	DefaultKeepAlive = 15 * time.Second
	// DefaultMaxListens is how many subscriptions may be open.
	DefaultMaxListens = 1024
	// DefaultMaxSessions is how many sessions there may be.
	DefaultMaxSessions = 10_000
	// DefaultMaxPerPrincipal is how many sessions one authenticated client may have.
	DefaultMaxPerPrincipal = 100
	// DefaultSessionTTL is how long a session may be idle.
	DefaultSessionTTL = 30 * time.Minute
	// SealedSessionLifetime is how long an id made with [Options.SessionKeys] is
	// good for.
	SealedSessionLifetime = 24 * time.Hour

	// openingTTL is how long a session may be idle after its handshake.
	openingTTL = 30 * time.Second
	// forgetTimeout is how long an event store may take to forget a session.
	forgetTimeout = 5 * time.Second
	// maxSessionID is the longest session id in bytes.
	maxSessionID = 1 << 10
	// chunked is from how many bytes on net/http sends a body of untold length in
	// chunks.
	chunked = 2 << 10
	// writePiece is how many bytes are written under one deadline.
	writePiece = 64 << 10
)

// Options configure [Handler]. The zero value is good and safe. Of the limits, 0
// means the default, and a negative one lifts the limit, which is not safe.
type Options struct {
	// Hosts are the names, with or without a port, that requests may be for. On
	// a loopback address, loopback names always are, and nothing else unless it
	// stands here; on any other address every name is, unless some stand here.
	Hosts []string
	// Origins are those of the web pages that may call, such as
	// "https://app.example.com"; they get CORS headers. Others are refused, except
	// pages from loopback addresses on a loopback address.
	Origins []string

	// MaxMessage is the longest request body in bytes. Default 4 MiB.
	MaxMessage int64
	// WriteTimeout is how long a client may take to accept one write of at most 64
	// KiB, before it is cut off. Default 10 s.
	WriteTimeout time.Duration
	// KeepAlive is how long a stream is silent before a comment is sent. Default
	// 15 s.
	KeepAlive time.Duration
	// MaxListens is how many subscriptions (2026-07-28) may be open at once; one
	// more is answered with status 503. Default 1,024.
	MaxListens int

	// MaxSessions is how many sessions (until 2025-11-25) there may be; one more is
	// answered with status 503. Default 10,000.
	MaxSessions int
	// MaxPerPrincipal is how many sessions one authenticated client may have.
	// Default 100.
	MaxPerPrincipal int
	// SessionTTL is how long a session may be idle. Default 30 min.
	SessionTTL time.Duration
	// SessionKeys make session ids that another process with the same keys
	// understands: the first seals, all open; each has at least 32 bytes. Such an
	// id holds, sealed, the version, what the client is and can do, whose it is, and
	// when it ends, which is after 24 hours at the latest. A process that has never
	// seen the session serves it with just that: log level, subscriptions, questions
	// under way and missed events stay behind in the process that has them. By
	// default a session belongs to one process and its id is random.
	SessionKeys [][]byte
	// SessionStore remembers which sealed sessions have been ended. By default
	// only this process does, for the latest 10,000: a deleted id then goes on being
	// good in other processes until it expires, unless they share a store.
	SessionStore SessionStore
	// Events keeps what clients that lost their connection may come back for.
	// Default: [NewMemoryEvents].
	Events EventStore

	// Conn are the limits of a session. Trace is shown the messages of all
	// requests.
	Conn jsonrpc.Options
	// Logger takes what the operator should know. Default slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	setLimit(&opts.MaxMessage, DefaultMaxMessage)
	setLimit(&opts.WriteTimeout, DefaultWriteTimeout)
	setLimit(&opts.KeepAlive, DefaultKeepAlive)
	setLimit(&opts.SessionTTL, DefaultSessionTTL)
	setDefault(&opts.MaxListens, DefaultMaxListens)
	setDefault(&opts.MaxSessions, DefaultMaxSessions)
	setDefault(&opts.MaxPerPrincipal, DefaultMaxPerPrincipal)
	if opts.Events == nil {
		opts.Events = NewMemoryEvents(nil)
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return opts
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// setLimit is setDefault for what is compared or added up: unlimited is just much.
func setLimit[T int64 | time.Duration](field *T, value T) {
	setDefault(field, value)
	if *field < 0 {
		*field = 1 << 60
	}
}
