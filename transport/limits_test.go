package transport_test

import (
	"math"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport"
)

// A limit that is not set has its default, a negative one does not limit, and others are kept.
func TestLimitsWithDefaults(t *testing.T) {
	const forever = time.Duration(1 << 60)
	for name, test := range map[string]struct{ limits, want transport.Limits }{
		"not set": {transport.Limits{}, transport.Limits{
			MessageBytes: 4 << 20, HeldBytes: 32 << 20, Calls: 1024, CallsPerPrincipal: 256, Sessions: 10_000, SessionsPerPrincipal: 100,
			Subscriptions: 1024, SessionTTL: 30 * time.Minute, WriteTimeout: 10 * time.Second,
		}},
		"negative": {transport.Limits{
			MessageBytes: -1, HeldBytes: -1, Calls: -1, CallsPerPrincipal: -1, Sessions: -1, SessionsPerPrincipal: -1,
			Subscriptions: -1, SessionTTL: -1, WriteTimeout: -1,
		}, transport.Limits{
			MessageBytes: 1 << 60, HeldBytes: 1 << 60, Calls: math.MaxInt, CallsPerPrincipal: math.MaxInt, Sessions: math.MaxInt, SessionsPerPrincipal: math.MaxInt,
			Subscriptions: math.MaxInt, SessionTTL: forever, WriteTimeout: forever,
		}},
		"smallest": {transport.Limits{
			MessageBytes: 1, HeldBytes: 1, Calls: 1, CallsPerPrincipal: 1, Sessions: 1, SessionsPerPrincipal: 1, Subscriptions: 1, SessionTTL: 1, WriteTimeout: 1,
		}, transport.Limits{
			MessageBytes: 1, HeldBytes: 1, Calls: 1, CallsPerPrincipal: 1, Sessions: 1, SessionsPerPrincipal: 1, Subscriptions: 1, SessionTTL: 1, WriteTimeout: 1,
		}},
		"different": {transport.Limits{
			MessageBytes: 2, HeldBytes: 3, Calls: 4, CallsPerPrincipal: 5, Sessions: 6, SessionsPerPrincipal: 7, Subscriptions: 8, SessionTTL: 9, WriteTimeout: 10,
		}, transport.Limits{
			MessageBytes: 2, HeldBytes: 3, Calls: 4, CallsPerPrincipal: 5, Sessions: 6, SessionsPerPrincipal: 7, Subscriptions: 8, SessionTTL: 9, WriteTimeout: 10,
		}},
	} {
		if got := test.limits.WithDefaults(); got != test.want {
			t.Errorf("%s: the limits are %+v, want %+v", name, got, test.want)
		}
	}
}
