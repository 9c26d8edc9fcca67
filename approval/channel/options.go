package channel

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// Defaults of [Options] and [ClientOptions].
const (
	// defaultHandoverTimeout is how long a second approver without the subprotocol waits for the
	// first one to disconnect.
	defaultHandoverTimeout = 5 * time.Second
	// defaultKeepAlive is the interval of pings.
	defaultKeepAlive = 15 * time.Second
	// defaultMaxHandlers is the maximum number of open prompts of a client.
	defaultMaxHandlers = 1024
)

const (
	// maxFrame is the maximum length of a frame in bytes.
	maxFrame = 256 << 10

	// maxWaiting is how many approvers may wait to be connected.
	maxWaiting = 8
	// maxApprovers is how many approvers with the subprotocol are connected to a channel.
	maxApprovers = 64
	// maxUnclear is how many requests a connection keeps that ended with a decision that is not yet
	// known.
	maxUnclear = 64
	// unidentified is the name of approvers without Options.Authenticate.
	unidentified = "channel"
	// writeTimeout bounds writing a frame.
	writeTimeout = 10 * time.Second
	// closeTimeout is how long a peer may take to answer a close frame.
	closeTimeout = time.Second
	// maxName is the maximum length of Options.Name.
	maxName = 64
)

// Options configures a [Channel]. The zero value is valid; see [Channel.Token].
type Options struct {
	// Token is the token that an approver must present. Callers must not know it. It has 16 to 4096 characters of A-Z, a-z,
	// 0-9 and -._~. It comes as "Authorization: Bearer T" or, from a browser, as the
	// WebSocket subprotocol "dovetail.token.T". Default: a random token.
	Token string
	// InsecureNoToken accepts approvers without a token, as older programs expect. Everyone who can
	// reach the handler can then decide about every request, including the callers about their own.
	InsecureNoToken bool
	// Hosts and Origins are allowed in addition to loopback ones, as in ws.Options.
	Hosts, Origins []string
	// HandoverTimeout is how long a second approver without the subprotocol waits for the first one
	// to disconnect, before it is refused. Default 5 s.
	HandoverTimeout time.Duration
	// ReconnectTimeout is how long a request waits for an approver if none is connected, at
	// most until it expires. Default: it fails immediately.
	ReconnectTimeout time.Duration
	// FailOnDisconnect fails the pending requests when the last approver disconnects, as older
	// programs expect. Default: the next approver gets them, until they expire.
	FailOnDisconnect bool
	// Store shares the open requests with other replicas: a request of one of them can be
	// decided at any other, and the first decision counts. A request that a killed or closed
	// replica leaves stays open until it expires, and the next call with the same target,
	// arguments and caller, at any replica, waits for its decision instead of asking again; all
	// unauthenticated callers count as one. The records contain the arguments and the names of callers. While the
	// store cannot be reached, requests fail with [approval.Failed]. All replicas must have the same Token. It
	// excludes FailOnDisconnect. Default a store in memory that only this channel uses.
	Store store.Store
	// Name is the name of the channel in Store: 1 to 64 letters, digits, "-" and "_". Channels with the same store and
	// name are replicas of one channel. Channels for different persons, such as the channels of an [approval.Quorum],
	// must have different names. Default "default".
	Name string
	// Authenticate says who an approver is, or that a request is not of one. It is used in place of Token, and may be called
	// concurrently. Default: everyone with Token is an approver with the name "channel", which other approvers do not see.
	Authenticate func(r *http.Request) (Person, bool)
	// KeepAlive is the interval of pings. An approver is disconnected when nothing, not
	// even an answer to a ping, has come for two and a half intervals. Default 15 s.
	KeepAlive time.Duration
	// Logger logs malformed frames, without their content, and connections. Default
	// slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	opts := *cmp.Or(o, &Options{})
	opts.HandoverTimeout = cmp.Or(opts.HandoverTimeout, defaultHandoverTimeout)
	if opts.KeepAlive <= 0 {
		opts.KeepAlive = defaultKeepAlive
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.Name = cmp.Or(opts.Name, "default")
	return opts
}

// A Person is an approver that [Options].Authenticate knows.
type Person struct {
	// Name is for the journal and for the other approvers.
	Name string
	// Principals are those of the calls that the person makes; see [approval.Request].Caller. The person can reject these calls,
	// and an approval of one is refused.
	Principals []string
	// Expires is when the person is disconnected. Zero: never.
	Expires time.Time
}

// ClientOptions configures [Dial]. The zero value is valid.
type ClientOptions struct {
	// Token is the token of the channel, if it requires one.
	Token string
	// HTTPClient says how to reach the server: its Jar, its Timeout, which bounds the
	// handshake, and the fields Proxy, DialContext, DialTLSContext and TLSClientConfig of
	// its Transport, which must be an *http.Transport. Default: httptransport.NewClient(nil), with 30
	// s for the handshake.
	HTTPClient *http.Client
	// Once ends the client with its first connection. Default: it reconnects with a growing
	// delay.
	Once bool
	// MaxHandlers is the maximum number of running handlers. Further requests fail. Default 1024.
	MaxHandlers int
	// KeepAlive is the interval of pings, as in [Options].
	KeepAlive time.Duration
	// Logger logs malformed frames and lost connections. Default slog.Default().
	Logger *slog.Logger
}

func (o *ClientOptions) withDefaults() ClientOptions {
	opts := *cmp.Or(o, &ClientOptions{})
	opts.MaxHandlers = cmp.Or(opts.MaxHandlers, defaultMaxHandlers)
	if opts.KeepAlive <= 0 {
		opts.KeepAlive = defaultKeepAlive
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	return opts
}
