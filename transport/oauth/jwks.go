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

// A keySource has the keys of an issuer. Who has the turn fetches them; all others go
// on with those that there are, or wait if there is none.
type keySource struct {
	load func(ctx context.Context) ([]byte, error) // nil: the keys never change
	turn turn

	current atomic.Pointer[keySet]

	// For who has the turn.
	tried  time.Time // when the last attempt ended
	failed error     // how
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
	issuer, at := o.Issuer, o.KeysURL
	return &keySource{turn: newTurn(), load: func(ctx context.Context) ([]byte, error) {
		at := at
		if at == "" {
			var err error
			if at, err = discoverKeys(ctx, guard, issuer); err != nil {
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
	case now.Sub(set.at) > keysFresh:
		set = s.refreshIfIdle(ctx, set)
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

// refresh returns other keys than the old ones, if there are any by now, or those again.
func (s *keySource) refresh(ctx context.Context, old *keySet) (*keySet, error) {
	leave, err := s.turn.take(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.refreshNow(ctx, old)
}

// refreshIfIdle refreshes keys that are still good, unless somebody does.
func (s *keySource) refreshIfIdle(ctx context.Context, old *keySet) *keySet {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		return old
	}
	if set, err := s.refreshNow(ctx, old); err == nil {
		return set
	}
	return old
}

// refreshNow is for who has the turn.
func (s *keySource) refreshNow(ctx context.Context, old *keySet) (*keySet, error) {
	if set := s.current.Load(); set != old {
		return set, nil
	}
	if time.Since(s.tried) < keysRetry {
		if s.failed != nil || old == nil {
			return nil, s.failed
		}
		return old, nil
	}
	// What others wait for does not end because its first client has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*keysTimeout)
	defer cancel()
	set, err := s.fetch(ctx)
	s.tried, s.failed = time.Now(), err
	if err != nil {
		return nil, err
	}
	s.current.Store(set)
	return set, nil
}

func (s *keySource) fetch(ctx context.Context) (*keySet, error) {
	body, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("the keys of the issuer: %w", err)
	}
	keys, err := parseKeys(body)
	if err != nil {
		return nil, fmt.Errorf("the keys of the issuer: %w", err)
	}
	return &keySet{keys: keys, at: time.Now()}, nil
}
