package ws

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
	// defaultWriteTimeout bounds how long a client writes one message.
	defaultWriteTimeout = 10 * time.Second
	// defaultKeepAlive is the interval of pings.
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
	// TrustedProxies are the addresses of proxies whose header X-Forwarded-For is trusted. A client that is not
	// authenticated has a share of each limit by its address, see [transport.WithRequest]; behind a proxy that is not
	// listed here, all clients have the address of the proxy. Default: none.
	TrustedProxies []netip.Prefix
	// Limits bounds what all clients of the endpoint can use. A message may take 10 seconds, and
	// one second more for each 16 KiB that have arrived; then its session ends.
	Limits transport.Limits
	// KeepAlive is the interval of pings. A session ends when nothing, not even an answer to
	// a ping, has come for two and a half intervals. Default 15 s; negative
	// disables pings and that check.
	KeepAlive time.Duration
	// NoSubprotocol also admits clients that do not name the subprotocol "mcp". Default: their
	// handshakes are refused.
	NoSubprotocol bool
	// Conn contains the limits of each connection. Its Limiter has no effect, and neither has
	// Drain, since no answer can be sent after the WebSocket has ended.
	Conn jsonrpc.Options
	// Logger logs samples of malformed messages and, at level Debug, of why sessions failed.
	// Default slog.Default().
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
	// HTTPClient says how to reach servers: its Jar, its Timeout, which bounds the handshake,
	// and the fields Proxy, DialContext, DialTLSContext and TLSClientConfig of its Transport,
	// which must be an *http.Transport. Redirects are not followed. Default:
	// httptransport.NewClient(nil), with 30 s for the handshake.
	HTTPClient *http.Client
	// Header, if set, may add to the header of each handshake, for example an Authorization; see
	// [httptransport.StaticHeader].
	// Its error fails the Dial. It is called concurrently.
	Header func(ctx context.Context, header http.Header) error
	// Authorizer, if set, authorizes handshakes that the server refuses with 401 or 403, such
	// as an *oauth.Client. It gets the handshake as a GET of the http or https URL.
	Authorizer httptransport.Authorizer
	// MaxMessage is the maximum length of a message in bytes. A longer one ends the
	// connection with the code 1009. Default 16 MiB.
	MaxMessage int64
	// WriteTimeout bounds writing one message. A connection whose server is slower ends.
	// Default 10 s.
	WriteTimeout time.Duration
	// KeepAlive is the interval of pings. A connection ends when nothing, not even an answer
	// to a ping, has come for two and a half intervals. Default 15 s; negative
	// disables pings and that check.
	KeepAlive time.Duration
	// NoSubprotocol leaves the subprotocol "mcp" out of the handshake, for servers that refuse it.
	NoSubprotocol bool
	// Conn contains the limits of each connection. SkipMalformed and Drain have no effect:
	// malformed messages are skipped, and no answer can be sent after the WebSocket has ended.
	Conn jsonrpc.Options
	// Logger logs samples of malformed messages and unexpected responses. Default slog.Default().
	Logger *slog.Logger
}

func (o *DialOptions) withDefaults() DialOptions {
	opts := *cmp.Or(o, &DialOptions{})
	opts.MaxMessage = cmp.Or(opts.MaxMessage, defaultDialMaxMessage)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, defaultWriteTimeout)
	opts.KeepAlive = cmp.Or(opts.KeepAlive, defaultKeepAlive)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Conn = duplex.ClientOptions(opts.Conn, opts.Logger)
	return opts
}
