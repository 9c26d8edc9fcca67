package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

const (
	// keysFresh is how long keys are good before they are fetched anew, and keysStale how
	// long when that fails.
	keysFresh = 10 * time.Minute
	keysStale = 24 * time.Hour
	// keysRetry is how long after an attempt to fetch keys there is no other.
	keysRetry = 5 * time.Second
	// keysTimeout bounds each fetch.
	keysTimeout = 5 * time.Second
	// maxKeys is how many keys an issuer may have.
	maxKeys = 64
	// maxCandidates is how many keys a token is tried with.
	maxCandidates = 4
	// minRSA and maxRSA are how long the modulus of a key may be, in bits. RFC 7518,
	// section 3.3, has the first.
	minRSA, maxRSA = 2048, 8192
)

// A keySource has the keys of an issuer. Requests wait for them only if there are none that
// will do.
type keySource struct {
	load func(ctx context.Context) ([]byte, error) // nil: the keys never change

	current atomic.Pointer[keySet]
	last    atomic.Pointer[attempt]
	fetches flights[*keySet]
}

// An attempt to fetch keys is how it ended.
type attempt struct {
	at  time.Time
	err error
}

// guardFor is what fetches for a verifier.
func guardFor(loopback bool, networks []netip.Prefix, resolver *net.Resolver) *netguard.Guard {
	return netguard.New(&netguard.Options{
		AllowLoopback: loopback, Allow: networks, Resolver: resolver, Timeout: keysTimeout, MaxBody: maxDocument,
	})
}

// newKeySource checks where keys are to come from.
func newKeySource(o *JWTOptions) (*keySource, error) {
	if o.Keys != nil {
		if o.KeysURL != "" {
			return nil, errors.New("expected either Keys or KeysURL")
		}
		keys, err := parseKeys(o.Keys)
		if err != nil {
			return nil, fmt.Errorf("the Keys: %w", err)
		}
		return fixedKeys(keys), nil
	}
	guard := guardFor(o.AllowLoopback, o.AllowNetworks, o.Resolver)
	if err := guard.Check(cmp.Or(o.KeysURL, o.Issuer)); err != nil {
		return nil, err
	}
	issuer, at, client := o.Issuer, o.KeysURL, newHTTPClient(guard)
	return &keySource{load: func(ctx context.Context) ([]byte, error) {
		at := at
		if at == "" {
			var err error
			if at, err = discoverKeys(ctx, client, issuer); err != nil {
				return nil, err
			}
		}
		body, _, err := guard.Get(ctx, at, maxDocument)
		return body, err
	}}, nil
}

func fixedKeys(keys []jose.JSONWebKey) *keySource {
	s := &keySource{}
	s.current.Store(&keySet{keys: keys})
	return s
}

// find returns the keys that a token may be signed with.
func (s *keySource) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) ([]*jose.JSONWebKey, error) {
	set := s.current.Load()
	if s.load == nil {
		return set.suited(id, algorithm)
	}
	var err error
	now := time.Now()
	switch {
	case set == nil || now.Sub(set.at) > keysStale:
		if set, err = s.refresh(ctx, set); err != nil {
			return nil, err
		}
	case now.Sub(set.at) > keysFresh && !s.isTooEarly():
		s.fetches.send(ctx, "", func(ctx context.Context) (*keySet, error) { return s.fetch(ctx, set) })
	}
	found, err := set.suited(id, algorithm)
	if err == nil {
		return found, nil
	}
	// The issuer may have new keys.
	newer, failed := s.refresh(ctx, set)
	if failed != nil {
		return nil, failed
	}
	return newer.suited(id, algorithm)
}

func (s *keySource) isTooEarly() bool {
	last := s.last.Load()
	return last != nil && time.Since(last.at) < keysRetry
}

// refresh returns other keys than the old ones, if there are any by now, or those again.
func (s *keySource) refresh(ctx context.Context, old *keySet) (*keySet, error) {
	if s.isTooEarly() {
		return s.known(old)
	}
	fetch := func(ctx context.Context) (*keySet, error) { return s.fetch(ctx, old) }
	s.fetches.send(ctx, "", fetch) // so that it goes on for those who come, and who left made no other
	return s.fetches.share(ctx, "", fetch)
}

// known is what the last attempt has left.
func (s *keySource) known(old *keySet) (*keySet, error) {
	if set := s.current.Load(); set != old {
		return set, nil
	}
	if err := s.last.Load().err; err != nil || old == nil {
		return nil, err
	}
	return old, nil
}

// fetch is done for all who wait.
func (s *keySource) fetch(ctx context.Context, old *keySet) (*keySet, error) {
	if s.isTooEarly() || s.current.Load() != old {
		return s.known(old)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*keysTimeout)
	defer cancel()
	body, err := s.load(ctx)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(body)
	}
	if err != nil {
		err = fmt.Errorf("the keys of the issuer: %w", err)
		s.last.Store(&attempt{time.Now(), err})
		return nil, err
	}
	set := &keySet{keys: keys, at: time.Now()}
	s.current.Store(set)
	s.last.Store(&attempt{at: set.at})
	return set, nil
}
