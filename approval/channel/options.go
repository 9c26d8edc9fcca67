package channel

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"
)

// Options configure a [Channel]. The zero value is good; see [Channel.Token].
type Options struct {
	// Token is what an approver must show, at least 16 bytes of A-Z, a-z, 0-9 and -._~: as
	// "Authorization: Bearer T", or, from a browser, as the WebSocket subprotocol
	// "dovetail.token.T". By default it is random.
	Token string
	// Open lets approvers in without a token, as the original ones expect. Then whoever can
	// reach the handler decides about everything.
	Open bool
	// Hosts and Origins are those that are allowed beside loopback ones, as for the MCP
	// endpoints of package transport/ws.
	Hosts, Origins []string
	// Wait is how long a second approver waits for the first to go, before it is sent away.
	// Default [DefaultWait].
	Wait time.Duration
	// Patience is how long a request waits for an approver when there is none, at most until
	// it expires. By default it fails at once.
	Patience time.Duration
	// FailOnDisconnect fails the open requests when the approver goes, as the original
	// channel does. By default the next approver is shown them, until they expire.
	FailOnDisconnect bool
	// Who names an approver for the journal. By default all are "channel".
	Who func(r *http.Request) string
	// KeepAlive is how often a ping is sent. An approver that sends nothing, not even an
	// answer to it, for two and a half times as long has gone. Default [DefaultKeepAlive].
	KeepAlive time.Duration
	// Logger takes frames that are no answers, without what is in them, and who comes and
	// goes. Default slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Wait = cmp.Or(opts.Wait, DefaultWait)
	if opts.KeepAlive <= 0 {
		opts.KeepAlive = DefaultKeepAlive
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Who == nil {
		opts.Who = func(*http.Request) string { return "channel" }
	}
	return opts
}

// ClientOptions configure [Dial]. The zero value is good.
type ClientOptions struct {
	// Token is the server's, if it asks for one.
	Token string
	// HTTPClient says how to reach the server: its Jar, its Timeout, for the handshake
	// alone, and of its Transport, which must be an *http.Transport, Proxy, DialContext,
	// DialTLSContext and TLSClientConfig. Default http.DefaultClient, with 30 s for the
	// handshake.
	HTTPClient *http.Client
	// Once ends the client with its first connection. By default it connects again, after
	// pauses that grow.
	Once bool
	// MaxHandlers is how many handlers may run; a request beyond fails. Default
	// [DefaultMaxHandlers].
	MaxHandlers int
	// KeepAlive is as in [Options].
	KeepAlive time.Duration
	// Logger takes frames that are no requests, and lost connections. Default
	// slog.Default().
	Logger *slog.Logger
}

func (o *ClientOptions) withDefaults() ClientOptions {
	var opts ClientOptions
	if o != nil {
		opts = *o
	}
	opts.HTTPClient = cmp.Or(opts.HTTPClient, http.DefaultClient)
	opts.MaxHandlers = cmp.Or(opts.MaxHandlers, DefaultMaxHandlers)
	if opts.KeepAlive <= 0 {
		opts.KeepAlive = DefaultKeepAlive
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	return opts
}
