package approval

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// Options configure a [Gate]. The zero value is good for a server of one's own.
type Options struct {
	policy.GuardOptions
	// Server is the server's name, for requests. Describe replaces it.
	Server string
	// Describe says what a call is for. It is asked when the call comes and again right
	// before it is made: another answer refuses the call. An error or a panic refuses it
	// too. By default the target is Server and the tool's name, as callers have it.
	Describe func(ctx context.Context, call *mcp.Call) (Target, error)
	// Expiry is how long a request may wait for its answer, and a call that has asked its
	// caller for more for that caller. Default [DefaultExpiry]; negative expires at once.
	Expiry time.Duration
	// Remember is for how long an approval is good for further calls with the same target,
	// arguments and caller. Callers that are not authenticated are not told apart. Default
	// 0: each call is asked about.
	Remember time.Duration
	// MaxOpen is how many requests may be open: asked, and their calls not over. Default
	// [DefaultMaxOpen].
	MaxOpen int
	// MaxPerCaller is how many of them may be one caller's. Default [DefaultMaxPerCaller].
	MaxPerCaller int
	// Journal records what becomes of requests. Default none.
	Journal Journal
	// RecordArguments has the journal take the arguments as they are, secrets included;
	// otherwise it has their digest.
	RecordArguments bool
	// Name tells gates apart that stand around the same call: it must differ. Default
	// "approval".
	Name string
	// Logger takes what becomes of requests, without arguments. Default slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Expiry = cmp.Or(opts.Expiry, DefaultExpiry)
	opts.MaxOpen = cmp.Or(opts.MaxOpen, DefaultMaxOpen)
	opts.MaxPerCaller = cmp.Or(opts.MaxPerCaller, DefaultMaxPerCaller)
	opts.Name = cmp.Or(opts.Name, "approval")
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Describe == nil {
		server := opts.Server
		opts.Describe = func(_ context.Context, call *mcp.Call) (Target, error) {
			return Target{Server: server, Tool: toolOf(call)}, nil
		}
	}
	return opts
}

// toolOf is the name of the tool that a call names, "" if it names none.
func toolOf(call *mcp.Call) string {
	name := call.Member("name")
	if jsonscan.KindOf(name) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(name)
}
