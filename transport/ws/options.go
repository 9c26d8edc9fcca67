package ws

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure [Handler]. The zero value is good.
type Options struct {
	// Hosts are the names under which this server may be reached, such as
	// "example.com" or "example.com:8443". On a loopback address the loopback names
	// are always allowed and, by default, nothing else; on any other address everything
	// is unless names are listed.
	Hosts []string
	// Origins are the origins of pages in browsers that may connect, such as
	// "https://app.example.com". By default none may, except that pages from a loopback
	// address may connect to one.
	Origins []string
	// MaxMessage is the longest message in bytes that is taken; a longer one ends its
	// session with 1009. Default [DefaultMaxMessage].
	MaxMessage int64
	// WriteTimeout is how long writing one message may take before the session ends.
	// Default [DefaultWriteTimeout].
	WriteTimeout time.Duration
	// KeepAlive is how often a ping is sent. A client that sends nothing, not even an
	// answer to it, for two and a half times as long has gone. Default
	// [DefaultKeepAlive]; negative means neither pings nor that check.
	KeepAlive time.Duration
	// MaxSessions is how many sessions there may be at a time; one more is refused
	// with 503. Default [DefaultMaxSessions]; negative means no bound.
	MaxSessions int
	// MaxPerPrincipal is how many of them may be of one authenticated client. Default
	// [DefaultMaxPerPrincipal]; negative means no bound.
	MaxPerPrincipal int
	// Conn are the limits of each connection. When a socket ends, nothing more can be
	// answered: Drain has no effect.
	Conn jsonrpc.Options
	// Logger takes what was received and was no message, and, at level Debug, why
	// sessions ended that did not end well. Default slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.MaxMessage = cmp.Or(opts.MaxMessage, DefaultMaxMessage)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, DefaultWriteTimeout)
	opts.KeepAlive = cmp.Or(opts.KeepAlive, DefaultKeepAlive)
	opts.MaxSessions = cmp.Or(opts.MaxSessions, DefaultMaxSessions)
	opts.MaxPerPrincipal = cmp.Or(opts.MaxPerPrincipal, DefaultMaxPerPrincipal)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Conn.Drain = -1
	opts.Conn.Admit = transport.AdmitBefore(opts.Conn.Admit)
	if opts.Conn.Malformed == nil {
		opts.Conn.Malformed = logMalformed(opts.Logger)
	}
	return opts
}

func logMalformed(logger *slog.Logger) func(error) {
	return func(err error) { logger.Warn("not a message", "error", err) }
}
