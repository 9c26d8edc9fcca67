package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// Options configures [New]. Zero values mean the defaults.
type Options struct {
	// Store contains the subscriptions and what is to be delivered. All replicas of the server
	// use the same. The caller closes it after Run has returned. Default: a store in memory,
	// which loses the subscriptions when the process ends; clients then subscribe again.
	Store store.Store
	// Keys encrypt what the Store contains: secrets, callback URLs and arguments. The first key
	// encrypts, and all keys decrypt. Each has at least 32 bytes from a random source. They are
	// required if there is a Store, and all replicas need the same. To replace a key, add the new one
	// as the last at all replicas, then make it the first, and remove the old one when what it has
	// encrypted has been refreshed or has expired: two days, or twice MaxTTL if that is longer. With
	// Forever, keep the old one.
	Keys [][]byte

	// DefaultTTL is the lifetime of a subscription if the client suggests none. Default 1 hour.
	DefaultTTL time.Duration
	// MinTTL and MaxTTL bound the lifetime of a subscription. Default 1 minute and 24 hours.
	MinTTL, MaxTTL time.Duration
	// Forever allows subscriptions without expiry. It needs a Store that is durable. A
	// subscription without expiry is removed when its deliveries were suspended for 7 days.
	Forever bool
	// MaxSubscriptions is the maximum number of subscriptions. Replicas that add subscriptions at the same moment may
	// exceed it. Default 10,000. For more, server.Options.RetainedBytes must be larger: each needs at least 4 KiB of it.
	MaxSubscriptions int
	// MaxPerPrincipal is the maximum number of subscriptions of one principal. Replicas count them together. Default
	// 100, maximum 10,000.
	MaxPerPrincipal int

	// Deliveries is the maximum number of subscriptions to which a replica delivers at a
	// time. One principal may use half of them, rounded up. Default 64.
	Deliveries int
	// DeliveriesPerHost is that number for the subscriptions with the same host. Default 16.
	DeliveriesPerHost int
	// Timeout bounds one attempt, from looking up the name to the end of the response. When a replica
	// ends without warning, another takes its deliveries over after six times Timeout. Default 10
	// seconds, maximum 30 seconds.
	Timeout time.Duration
	// Attempts is the maximum number of attempts to deliver an event. Default 12, which is enough for
	// the default RetryWindow.
	Attempts int
	// RetryPause is the pause after the first attempt, before jitter. The next pauses are longer, up to
	// 5 minutes. Default 10 seconds.
	RetryPause time.Duration
	// RetryWindow is how long after the first attempt the last one begins, if Attempts allows it. It
	// also bounds the header Retry-After. Events wait in the log of the server, so the LogAge of its
	// store must be longer. Default 15 minutes.
	RetryWindow time.Duration
	// SuspendAfter is how long an endpoint may accept nothing, with at least 20 attempts, before
	// deliveries to it are suspended until the subscription is refreshed. Default 1 hour.
	SuspendAfter time.Duration
	// Sweep is how often all subscriptions are read, in case that a replica ended between the
	// occurrence of an event and Wake. It also moves their positions in the log on while nothing happens.
	// Default 5 minutes, maximum 10 minutes.
	Sweep time.Duration

	// Verified reports whether a callback URL needs no verification for a principal, because it
	// is in a list of allowed URLs or was confirmed by other means. Default: none is.
	// It is called concurrently.
	Verified func(ctx context.Context, principal, url string) bool
	// AllowLoopback allows callback URLs on this machine, also over http. It is for tests and
	// development.
	AllowLoopback bool
	// Allow lists networks that are allowed although their addresses are not public.
	Allow []netip.Prefix
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
	// TLS configures TLS. Default: the root certificates of the system, TLS 1.2 and later.
	TLS *tls.Config
	// Logger receives messages about events that were abandoned, suspended subscriptions, and
	// failures of the store. They contain ids and reasons, and neither URLs nor data. Default:
	// slog.Default().
	Logger *slog.Logger
}

const (
	defaultTTL        = time.Hour
	defaultMinTTL     = time.Minute
	defaultMaxTTL     = 24 * time.Hour
	defaultMax        = 10_000
	defaultPrincipal  = 100
	mostPerPrincipal  = 10_000 // whose ids fit into one record
	defaultDeliveries = 64
	defaultPerHost    = 16
	defaultTimeout    = 10 * time.Second
	maxTimeout        = 30 * time.Second
	defaultAttempts   = 12
	defaultPause      = 10 * time.Second
	defaultWindow     = 15 * time.Minute
	defaultSuspend    = time.Hour
	defaultSweep      = 5 * time.Minute
	maxSweep          = 10 * time.Minute // shorter than half of the default of store.Limits.LogAge
)

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.DefaultTTL = cmp.Or(opts.DefaultTTL, defaultTTL)
	opts.MinTTL = cmp.Or(opts.MinTTL, min(defaultMinTTL, opts.DefaultTTL))
	opts.MaxTTL = cmp.Or(opts.MaxTTL, max(defaultMaxTTL, opts.DefaultTTL))
	opts.MaxSubscriptions = cmp.Or(opts.MaxSubscriptions, defaultMax)
	opts.MaxPerPrincipal = cmp.Or(opts.MaxPerPrincipal, defaultPrincipal)
	opts.Deliveries = cmp.Or(opts.Deliveries, defaultDeliveries)
	opts.DeliveriesPerHost = cmp.Or(opts.DeliveriesPerHost, defaultPerHost)
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	opts.Attempts = cmp.Or(opts.Attempts, defaultAttempts)
	opts.RetryPause = cmp.Or(opts.RetryPause, defaultPause)
	opts.RetryWindow = cmp.Or(opts.RetryWindow, defaultWindow)
	opts.SuspendAfter = cmp.Or(opts.SuspendAfter, defaultSuspend)
	opts.Sweep = cmp.Or(opts.Sweep, defaultSweep)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	for name, n := range map[string]int64{
		"DefaultTTL": int64(opts.DefaultTTL), "MinTTL": int64(opts.MinTTL), "MaxTTL": int64(opts.MaxTTL),
		"MaxSubscriptions": int64(opts.MaxSubscriptions), "MaxPerPrincipal": int64(opts.MaxPerPrincipal),
		"Deliveries": int64(opts.Deliveries), "DeliveriesPerHost": int64(opts.DeliveriesPerHost),
		"Timeout": int64(opts.Timeout), "Attempts": int64(opts.Attempts), "RetryPause": int64(opts.RetryPause), "RetryWindow": int64(opts.RetryWindow),
		"SuspendAfter": int64(opts.SuspendAfter), "Sweep": int64(opts.Sweep),
	} {
		if n < 0 {
			return opts, fmt.Errorf("webhook: Options.%s is negative", name)
		}
	}
	switch {
	case opts.MaxPerPrincipal > mostPerPrincipal:
		return opts, fmt.Errorf("webhook: Options.MaxPerPrincipal is %d, and at most %d", opts.MaxPerPrincipal, mostPerPrincipal)
	case opts.MinTTL > opts.DefaultTTL || opts.DefaultTTL > opts.MaxTTL:
		return opts, errors.New("webhook: Options.DefaultTTL is not between MinTTL and MaxTTL")
	case opts.Timeout > maxTimeout:
		return opts, fmt.Errorf("webhook: Options.Timeout is longer than %v", maxTimeout)
	case opts.Sweep > maxSweep:
		return opts, fmt.Errorf("webhook: Options.Sweep is longer than %v", maxSweep)
	case opts.Store != nil && len(opts.Keys) == 0:
		return opts, errors.New("webhook: Options.Store needs Keys, since it contains the secrets of subscriptions")
	case opts.Forever && opts.Store == nil:
		return opts, errors.New("webhook: Options.Forever needs a Store, since subscriptions without expiry must survive a restart")
	}
	return opts, nil
}
