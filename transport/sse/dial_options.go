package sse

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// DialOptions configure [Dial]. The zero value is good.
type DialOptions struct {
	// HTTPClient makes the requests. By default all connections of a dialer share a
	// transport of their own. Of a given client, CheckRedirect is replaced, and
	// Timeout should be zero: it would end the stream.
	HTTPClient *http.Client
	// Header, when set, is called for each request and may add to its header, to
	// authorize it for instance. Its error fails the request before it is sent. It is
	// called concurrently.
	Header func(ctx context.Context, header http.Header) error
	// Authorizer, when set, gets admitted what the server refuses with 401 or 403, such
	// as an *oauth.Client. Opening the stream waits for it, and so does a
	// message, whose time goes on meanwhile.
	Authorizer Authorizer
	// MaxMessage is the longest message in bytes that is taken; a longer one ends the
	// connection. Default [DefaultDialMaxMessage].
	MaxMessage int64
	// Conn are the limits of each connection. What is no message is skipped, and when
	// the stream ends nothing more can be answered: SkipMalformed and Drain have no
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
	opts.MaxMessage = cmp.Or(opts.MaxMessage, DefaultDialMaxMessage)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Conn.CallTimeout = cmp.Or(opts.Conn.CallTimeout, jsonrpc.DefaultCallTimeout)
	opts.Conn.SkipMalformed = true
	opts.Conn.Drain = -1
	if opts.Conn.Malformed == nil {
		opts.Conn.Malformed = logMalformed(opts.Logger)
	}
	return opts
}
