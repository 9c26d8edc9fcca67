package sse

import (
	"cmp"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure [Handler]. The zero value is good and safe.
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
	// Messages is the path to which clients post their messages, as they see it, such
	// as "/messages"; the endpoint must be mounted there as well. Default: the path
	// of the stream.
	Messages string
	// MaxMessage is the longest message in bytes that is taken. Default
	// [DefaultMaxMessage].
	MaxMessage int64
	// WriteTimeout is how long a client may take to accept a write of at most 64 KiB
	// before its session ends. Default [DefaultWriteTimeout].
	WriteTimeout time.Duration
	// KeepAlive is how long a stream is silent before a comment is sent. Default
	// [DefaultKeepAlive]; negative means none is.
	KeepAlive time.Duration
	// MaxSessions is how many sessions there may be at a time; one more is refused
	// with 503. Default [DefaultMaxSessions]; negative means no bound.
	MaxSessions int
	// MaxPerPrincipal is how many of them may be of one authenticated client. Default
	// [DefaultMaxPerPrincipal]; negative means no bound.
	MaxPerPrincipal int
	// Conn are the limits of each session. When a stream ends, nothing more can be
	// answered: Drain has no effect.
	Conn jsonrpc.Options
	// Logger takes what was received and was no message. Default slog.Default().
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

// isPath tells whether a text is a path, percent-encoded, and nothing else of a URI.
func isPath(text string) bool {
	u, err := url.Parse(text)
	return err == nil && strings.HasPrefix(text, "/") && u.EscapedPath() == text
}
