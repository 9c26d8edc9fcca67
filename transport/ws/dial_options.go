package ws

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// DialOptions configure [Dial]. The zero value is good.
type DialOptions struct {
	// HTTPClient says how to reach servers: its Jar, its Timeout, for the handshake
	// alone, and of its Transport, which must be an *http.Transport, Proxy, DialContext,
	// DialTLSContext and TLSClientConfig. Default http.DefaultClient, with 30 s for the
	// handshake. Redirects are not followed.
	HTTPClient *http.Client
	// Header, when set, may add to the header of each handshake, for example an
	// Authorization. Its error fails the Dial.
	Header func(ctx context.Context, header http.Header) error
	// Authorizer, when set, gets admitted what the server refuses with 401 or 403, such
	// as an *oauth.Client. It sees the handshake, as a GET of the http or https
	// URL.
	Authorizer Authorizer
	// MaxMessage is the longest message in bytes that is taken; a longer one ends the
	// connection with 1009. Default [DefaultDialMaxMessage].
	MaxMessage int64
	// WriteTimeout is how long writing one message may take before the connection
	// ends. Default [DefaultWriteTimeout].
	WriteTimeout time.Duration
	// KeepAlive is how often a ping is sent. A server that sends nothing, not even an
	// answer to it, for two and a half times as long has gone. Default
	// [DefaultKeepAlive]; negative means neither pings nor that check.
	KeepAlive time.Duration
	// Conn are the limits of each connection. What is no message is skipped, and when
	// the socket ends nothing more can be answered: SkipMalformed and Drain have no
	// effect.
	Conn jsonrpc.Options
	// Logger takes what was received and was no message. Default slog.Default().
	Logger *slog.Logger
}

func (o *DialOptions) withDefaults() DialOptions {
	var opts DialOptions
	if o != nil {
		opts = *o
	}
	opts.HTTPClient = cmp.Or(opts.HTTPClient, http.DefaultClient)
	opts.MaxMessage = cmp.Or(opts.MaxMessage, DefaultDialMaxMessage)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, DefaultWriteTimeout)
	opts.KeepAlive = cmp.Or(opts.KeepAlive, DefaultKeepAlive)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Conn.SkipMalformed = true
	opts.Conn.Drain = -1
	if opts.Conn.Malformed == nil {
		opts.Conn.Malformed = logMalformed(opts.Logger)
	}
	return opts
}
