package client

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/mcp"
)

// An Era is a family of protocol versions.
type Era int

const (
	// Auto asks the server, and falls back to the handshake of the legacy era.
	Auto Era = iota
	// Modern speaks 2026-07-28 only.
	Modern
	// Legacy opens with a handshake at once: for servers that stumble over a
	// question before it.
	Legacy
)

// Options configure a [Session]. The zero value is good: such a client cannot
// be asked anything.
type Options struct {
	// Info says who the client is. Default: "dovetail".
	Info mcp.Implementation

	// Elicit, when set, asks the person; the server may then elicit forms.
	Elicit func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// ElicitURLs says that Elicit can also send the person to a URL.
	ElicitURLs bool
	// Sample, when set, asks the model.
	Sample func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	// SampleTools says that Sample can give the model tools.
	SampleTools bool
	// Roots, when set, lists the directories that are open to the server.
	Roots func(ctx context.Context) ([]mcp.Root, error)

	// Middleware surrounds each request that the session sends for a call of its methods or
	// of [Session.Forward]: calls of tools, lists, reads, prompts and completions, not
	// pings, subscriptions and the opening. The first is outermost. It sees a call once,
	// however often the server asks questions on the way; they go to the handlers above.
	// Target of the call is nil, since a client has no catalog, and Caller is this
	// client, except for forwarded calls. Results are [mcp.Raw]. What a middleware refuses
	// is a *jsonrpc.CallError that wraps its error.
	Middleware []mcp.Middleware

	// Capabilities, when set, are declared instead of what the handlers can do, and the
	// handlers are not asked: this is a session for the calls of others, who can be
	// asked this much. See [Session.Forward].
	Capabilities *mcp.ClientCapabilities
	// SuspendedCalls holds forwarded calls whose callers are asked. Sessions that share
	// one share its limits, and any of them can continue a call. Default: the session has
	// its own.
	SuspendedCalls *SuspendedCalls

	// Changed is told what the server offers differently now: changes of a
	// session in the legacy era, and those that [Session.Subscribe] asked for.
	Changed func(ctx context.Context, change mcp.Change)
	// Logged is told the server's log messages from LogLevel on.
	Logged func(ctx context.Context, message *mcp.LoggingMessageParams)
	// LogLevel is the least severe level wanted. Default info when Logged is
	// set, none otherwise.
	LogLevel mcp.LoggingLevel

	// Era restricts how the server is addressed.
	Era Era
	// ProbeTimeout is how long a server may take to say that it is modern.
	// Default 5 s.
	ProbeTimeout time.Duration
	// ConnectTimeout bounds opening a session. Default 30 s.
	ConnectTimeout time.Duration
	// MaxPages is how many pages of a list are read. Default 64.
	MaxPages int
	// MaxRounds is how often one call may ask. Default 10.
	MaxRounds int
	// MaxReconnects is how often in a row the session tries to connect again
	// when its connection has ended, with pauses that grow to 30 s. Default 10;
	// negative means never.
	MaxReconnects int
}

const (
	defaultMaxPages      = 64
	defaultMaxReconnects = 10
)

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Info.Name == "" {
		opts.Info = mcp.Implementation{Name: "dovetail", Version: "0"}
	}
	if opts.Logged != nil && opts.LogLevel == "" {
		opts.LogLevel = mcp.LevelInfo
	}
	if opts.MaxPages == 0 {
		opts.MaxPages = defaultMaxPages
	}
	if opts.MaxReconnects == 0 {
		opts.MaxReconnects = defaultMaxReconnects
	}
	if opts.SuspendedCalls == nil {
		opts.SuspendedCalls = NewSuspendedCalls()
	}
	return opts
}

// capabilities are what the handlers can do.
func (o *Options) capabilities() mcp.ClientCapabilities {
	if o.Capabilities != nil {
		return *o.Capabilities
	}
	var can mcp.ClientCapabilities
	if o.Elicit != nil {
		can.Elicitation = &mcp.ElicitationCapability{Form: &mcp.EmptyObject{}}
		if o.ElicitURLs {
			can.Elicitation.URL = &mcp.EmptyObject{}
		}
	}
	if o.Sample != nil {
		can.Sampling = &mcp.SamplingCapability{}
		if o.SampleTools {
			can.Sampling.Tools = &mcp.EmptyObject{}
		}
	}
	if o.Roots != nil {
		can.Roots = &mcp.RootsCapability{}
	}
	return can
}

func (o *Options) config(answerer era.Answerer) era.Config {
	return era.Config{
		Info: o.Info, Capabilities: o.capabilities(), Answerer: answerer,
		Mode: era.Mode(o.Era), LogLevel: o.LogLevel,
		ProbeTimeout: o.ProbeTimeout, OpenTimeout: o.ConnectTimeout, MaxRounds: o.MaxRounds,
	}
}
