package streamable

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// DefaultDialMaxMessage is the longest message that a client takes, in bytes.
const DefaultDialMaxMessage = 16 << 20

const (
	// closeTimeout bounds telling the server that a session is over.
	closeTimeout = 2 * time.Second
	// lossGrace is how long requests that are under way may take to hear that their
	// session is gone.
	lossGrace = time.Second
	// listenGrace is how long opening a session waits for the stream of what the
	// server sends unasked: what is sent before it is open is lost.
	listenGrace = 250 * time.Millisecond
	// maxResumes is how often in a row a client fails to come back to a stream
	// before it gives the call up.
	maxResumes = 5
	// settled is how long a stream must have held, if nothing came, before the
	// pauses between attempts begin anew.
	settled = 10 * time.Second
	// maxListPages is how many pages of tools a client reads to learn how a call
	// must be made.
	maxListPages = 64
	// maxBindings is of how many tools a client remembers which arguments have
	// headers.
	maxBindings = 10_000
)

// DialOptions configure [Dial]. The zero value is good.
type DialOptions struct {
	// HTTPClient makes the requests. By default all connections of a dialer share
	// a transport of their own. Of a given client, CheckRedirect is replaced, and
	// Timeout should be zero: it would end streams.
	HTTPClient *http.Client
	// Header, when set, is called for each request and may add to its header, to
	// authorize it for instance. What the protocol has headers for it cannot
	// change. Its error fails the request before it is sent. It is called
	// concurrently.
	Header func(ctx context.Context, header http.Header) error
	// Authorizer, when set, gets admitted what the server refuses with 401 or 403, such
	// as an *oauth.Client. A call waits for it, and meanwhile its timeout stands
	// still, but for one that its context has.
	Authorizer Authorizer
	// MaxMessage is the longest message of the server in bytes. Default
	// [DefaultDialMaxMessage].
	MaxMessage int64
	// Conn are the limits of a connection. Drain and SkipMalformed have no
	// meaning here.
	Conn jsonrpc.Options
	// Logger is told of tools that the server describes in a way that forbids
	// calling them. Default slog.Default().
	Logger *slog.Logger
}

func (o *DialOptions) withDefaults() DialOptions {
	var opts DialOptions
	if o != nil {
		opts = *o
	}
	setDefault(&opts.MaxMessage, DefaultDialMaxMessage)
	setDefault(&opts.Conn.MaxPending, jsonrpc.DefaultMaxPending)
	setDefault(&opts.Conn.CallTimeout, jsonrpc.DefaultCallTimeout)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return opts
}
