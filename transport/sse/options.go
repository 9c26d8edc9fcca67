package sse

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

// Defaults of [Options] and [DialOptions].
const (
	// defaultDialMaxMessage is the maximum length in bytes of a message that a client accepts.
	defaultDialMaxMessage = 16 << 20
	// defaultKeepAlive is the time without events after which a comment is sent.
	defaultKeepAlive = 15 * time.Second
)

// Options configures [Handler]. The zero value is safe for production.
type Options struct {
	// Hosts lists the host names of this server, such as "example.com" or
	// "example.com:8443". On a loopback address, loopback names are always allowed and other
	// names only if they are listed. On any other address, all names are allowed if Hosts is
	// empty, and otherwise the listed ones, loopback names and the address itself.
	Hosts []string
	// Origins lists the origins of web pages that may connect, such as
	// "https://app.example.com". Pages from a loopback address may always connect to a
	// loopback address. Pages from the address or the forwarded loopback port that they connect
	// to are allowed, too. Default: no other pages.
	Origins []string
	// Messages is the path to which clients post messages, such as "/messages". The endpoint
	// must also be mounted there. Default: the path of the stream.
	Messages string
	// SessionHeader is for clients that read only the "endpoint" event of lauren-mcp, {"session_id": ID}. They post messages
	// to the directory of the stream, with the ID in the header Mcp-Session-Id: if the stream is at /mcp/sse, mount the
	// endpoint at /mcp/ too. Clients that follow the specification expect a URI and cannot connect then. The clients of
	// lauren-mcp also connect without SessionHeader if the endpoint is mounted at both paths.
	SessionHeader bool
	// TrustedProxies are the addresses of proxies whose header X-Forwarded-For is trusted. A client that is not
	// authenticated has a share of each limit by its address, see [transport.WithRequest]; behind a proxy that is not
	// listed here, all clients have the address of the proxy. Default: none.
	TrustedProxies []netip.Prefix
	// Limits bounds what all clients of the endpoint can use.
	Limits transport.Limits
	// KeepAlive is the time without events after which a comment is sent. Default
	// 15 s; negative disables comments.
	KeepAlive time.Duration
	// Conn contains the limits of each session. Its Limiter has no effect, and neither has Drain,
	// since no answer can be sent after the stream has ended.
	Conn jsonrpc.Options
	// Logger logs samples of malformed messages and unexpected responses. Default slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	opts := *cmp.Or(o, &Options{})
	opts.Limits = opts.Limits.WithDefaults()
	opts.KeepAlive = cmp.Or(opts.KeepAlive, defaultKeepAlive)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Conn = duplex.ServerOptions(opts.Conn, opts.Logger)
	return opts
}

// DialOptions configures [Dial]. The zero value is valid.
type DialOptions struct {
	// HTTPClient sends the requests. Its CheckRedirect is replaced, and its Timeout should be
	// zero, since it would end the stream. Default: a client whose connections are shared by
	// all connections of the dialer.
	HTTPClient *http.Client
	// Header, if set, may add to the header of each request, for example an Authorization; see
	// [httptransport.StaticHeader].
	// Its error fails the request before it is sent. It is called concurrently.
	Header func(ctx context.Context, header http.Header) error
	// Authorizer, if set, authorizes requests that the server refuses with 401 or 403, such
	// as an *oauth.Client. Opening the stream waits for it without a timeout. A message waits
	// for it until the message's own timeout.
	Authorizer httptransport.Authorizer
	// MaxMessage is the maximum length of a message in bytes. A longer one ends the
	// connection. Default 16 MiB.
	MaxMessage int64
	// Conn contains the limits of each connection. SkipMalformed and Drain have no effect:
	// malformed messages are skipped, and no answer can be sent after the stream has ended.
	Conn jsonrpc.Options
	// Logger logs samples of malformed messages and unexpected responses. Default slog.Default().
	Logger *slog.Logger
}

func (o *DialOptions) withDefaults() DialOptions {
	opts := *cmp.Or(o, &DialOptions{})
	opts.MaxMessage = cmp.Or(opts.MaxMessage, defaultDialMaxMessage)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Conn = duplex.ClientOptions(opts.Conn, opts.Logger)
	return opts
}
