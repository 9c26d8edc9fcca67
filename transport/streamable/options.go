package streamable

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

// Defaults of [Options].
const (
	// defaultKeepAlive is the time without events after which a comment is sent.
	defaultKeepAlive = 15 * time.Second
)

// Options configures [Handler]. The zero value is safe for production.
type Options struct {
	// Hosts lists the host names of this server, with or without a port. On a loopback
	// address, loopback names are always allowed and other names only if they are listed.
	// On any other address, all names are allowed if Hosts is empty, and otherwise the listed
	// ones, loopback names and the address itself.
	Hosts []string
	// Origins lists the origins of web pages that may call, such as
	// "https://app.example.com". They get CORS headers. Pages from a loopback address may
	// always call a loopback address. Pages from the address or the forwarded loopback port
	// that they call are allowed, too. Default: no other pages.
	Origins []string

	// TrustedProxies are the addresses of proxies whose header X-Forwarded-For is trusted. A client that is not
	// authenticated has a share of each limit by its address, see [transport.WithRequest]; behind a proxy that is not
	// listed here, all clients have the address of the proxy. Default: none.
	TrustedProxies []netip.Prefix
	// Limits bounds what all clients of the endpoint can use.
	Limits transport.Limits
	// KeepAlive is the time without events after which a comment is sent. Default
	// 15 s; negative disables comments.
	KeepAlive time.Duration

	// Conn contains the limits of a session. Its Trace gets the messages of all requests.
	Conn jsonrpc.Options
	// Logger logs failures of the store and the web server, and samples
	// of malformed messages and unexpected responses. Default slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	opts := *cmp.Or(o, &Options{})
	opts.Limits = opts.Limits.WithDefaults()
	if opts.KeepAlive < 0 {
		opts.KeepAlive = 1 << 60
	}
	opts.KeepAlive = cmp.Or(opts.KeepAlive, defaultKeepAlive)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Conn.Malformed == nil {
		opts.Conn.Malformed = duplex.LogMalformed(opts.Logger)
	}
	return opts
}

// defaultDialMaxMessage is the maximum length in bytes of a message that a client accepts.
const defaultDialMaxMessage = 16 << 20

const (
	// maxSessionID is the maximum length in bytes of a session id that a client accepts.
	maxSessionID = 1 << 10
	// closeTimeout bounds the request that ends a session.
	closeTimeout = 2 * time.Second
	// lossTimeout is how long pending requests may take to fail by themselves after the
	// session is lost.
	lossTimeout = time.Second
	// listenTimeout bounds how long opening a session waits for the stream of unsolicited
	// messages. Messages that the server sends before it is open are lost.
	listenTimeout = 250 * time.Millisecond
	// maxReplies is how often a response to a call of the server is sent at most.
	maxReplies = 5
	// maxResumes is how often in a row resuming a stream may fail.
	maxResumes = 5
	// stableAfter is how long a silent stream must have been open before the backoff is
	// reset.
	stableAfter = 10 * time.Second
	// longRetry is the shortest delay that a server may request for streams that it ends immediately, and how long a
	// stream lasts that did not end immediately.
	longRetry = time.Second
	// checkTimeout bounds the requests that find out whether the server knows the session.
	checkTimeout = 5 * time.Second
	// maxListPages is how many pages of tools a client reads to find the headers of a call.
	maxListPages = 64
	// maxBindings is the maximum number of tools whose header parameters a client
	// remembers.
	maxBindings = 10_000
	// maxBindingBytes bounds the definitions of these tools together.
	maxBindingBytes = 8 << 20
)

// DialOptions configures [Dial]. The zero value is valid.
type DialOptions struct {
	// HTTPClient sends the requests. Its CheckRedirect is replaced, and its Timeout should
	// be zero, since it would end streams. Default: a client whose connections are shared
	// by all connections of the dialer.
	HTTPClient *http.Client
	// Header, if set, may add to the header of each request, for example an Authorization; see
	// [httptransport.StaticHeader].
	// It cannot change the headers of the protocol. Its error fails the request before it
	// is sent. It is called concurrently.
	Header func(ctx context.Context, header http.Header) error
	// Authorizer, if set, authorizes requests that the server refuses with 401 or 403, such
	// as an *oauth.Client. A call waits for it. That time counts towards a deadline of the
	// call's context, but not towards Conn.CallTimeout.
	Authorizer httptransport.Authorizer
	// MaxMessage is the maximum length of a message of the server in bytes. Default
	// 16 MiB.
	MaxMessage int64
	// Conn contains the limits of a connection. Drain, SkipMalformed and Wrap have no effect.
	Conn jsonrpc.Options
	// Logger logs tools that are left out of lists because their definition is invalid, answers
	// that could not be sent, and samples of malformed messages and unexpected responses.
	// Default slog.Default().
	Logger *slog.Logger
}

func (o *DialOptions) withDefaults() DialOptions {
	opts := *cmp.Or(o, &DialOptions{})
	opts.MaxMessage = cmp.Or(opts.MaxMessage, defaultDialMaxMessage)
	opts.Conn = opts.Conn.WithDefaults()
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Conn.Malformed == nil {
		opts.Conn.Malformed = duplex.LogMalformed(opts.Logger)
	}
	return opts
}
