package memory

import (
	"cmp"
	"log/slog"
	"math"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Defaults of [Options].
const (
	// DefaultMaxName is the longest conversation id, user id or key, in bytes.
	DefaultMaxName = 256
	// DefaultMaxSnapshot is the longest snapshot of a conversation, in bytes.
	DefaultMaxSnapshot = 1 << 20
	// DefaultMaxValue is the longest value of a fact, in bytes.
	DefaultMaxValue = 4 << 10
	// DefaultTimeout is how long one operation of the store may take.
	DefaultTimeout = 10 * time.Second
)

// Options configure a memory server. The zero value is good. Of numbers, zero means
// the default, a negative one no bound.
type Options struct {
	// Info says who the server is. Default: "memory".
	Info mcp.Implementation
	// Server configures the server itself: its guards, interceptors, logger. Its
	// Instructions default to some that suit.
	Server *server.Options
	// Shared gives all callers one memory, that of callers that are not
	// authenticated. By default each principal has its own.
	Shared bool
	// MissingIsError answers a read of a conversation that does not exist with an
	// error, as other resources do. By default it is "[]", an empty conversation.
	MissingIsError bool
	// MaxName, MaxSnapshot and MaxValue bound what callers send, in bytes. Defaults
	// [DefaultMaxName], [DefaultMaxSnapshot], [DefaultMaxValue].
	MaxName, MaxSnapshot, MaxValue int
	// Timeout bounds each operation of the store. Default [DefaultTimeout].
	Timeout time.Duration
}

const instructions = "Save what has to outlive this conversation, and look for it before asking again. " +
	"Facts are short texts about one user; a conversation is saved as a whole, under an id of your choice."

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Info.Name == "" {
		opts.Info = mcp.Implementation{Name: "memory", Title: "Memory", Version: "0"}
	}
	var of server.Options
	if opts.Server != nil {
		of = *opts.Server
	}
	of.Instructions = cmp.Or(of.Instructions, instructions)
	of.Logger = cmp.Or(of.Logger, slog.Default())
	opts.Server = &of
	opts.MaxName = bound(opts.MaxName, DefaultMaxName)
	opts.MaxSnapshot = bound(opts.MaxSnapshot, DefaultMaxSnapshot)
	opts.MaxValue = bound(opts.MaxValue, DefaultMaxValue)
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	return opts
}

func bound(value, byDefault int) int {
	if value < 0 {
		return math.MaxInt
	}
	return cmp.Or(value, byDefault)
}
