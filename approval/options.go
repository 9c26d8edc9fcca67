package approval

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/policy"
)

// Options configure a [Guard]. The zero value is good.
type Options struct {
	policy.GuardOptions

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
	// Name is the guard's name. Guards around the same call must have different names.
	// Default "approval".
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
	return opts
}
