package oauth

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/netguard"
)

const (
	// keysFresh is the age at which keys are fetched again in the background. keysLate is the
	// age at which a token waits for the fetch: no token came since keysFresh, and the issuer may
	// have withdrawn a key. keysStale is the age at which keys are no longer used.
	keysFresh = 10 * time.Minute
	keysLate  = 2 * keysFresh
	keysStale = 24 * time.Hour
	// keysRetry is the minimum time between two fetches.
	keysRetry = 5 * time.Second
	// keysTimeout bounds each HTTP request of a verifier.
	keysTimeout = 5 * time.Second
	// maxKeys is the number of keys that an issuer may publish.
	maxKeys = 64
	// maxCandidates is the number of keys that are tried for a token.
	maxCandidates = 4
	// minRSA and maxRSA are the shortest and the longest modulus of an RSA key, in bits. RFC
	// 7518, section 3.3, requires the minimum.
	minRSA, maxRSA = 2048, 8192
)

// A keySource fetches and caches the keys of an issuer. Use newKeySource or fixedKeys.
type keySource struct {
	load    func(ctx context.Context) (issuer string, keys []byte, err error) // nil if the keys never change
	current atomic.Pointer[keySet]
	last    atomic.Pointer[fetchAttempt]
	fetches singleflight.Group

	lifetime context.Context // of fetches, which outlive the requests that start them
	cancel   context.CancelCauseFunc
}

// A fetchAttempt is the result of the last fetch.
type fetchAttempt struct {
	at  time.Time
	err error
}

func newKeySource(load func(ctx context.Context) (issuer string, keys []byte, err error)) *keySource {
	s := &keySource{load: load}
	s.lifetime, s.cancel = context.WithCancelCause(context.Background())
	return s
}

func fixedKeys(keys []jose.JSONWebKey) *keySource {
	s := newKeySource(nil)
	s.current.Store(&keySet{keys: keys})
	return s
}

// keySourceOf returns the key source for options. It fetches nothing.
func keySourceOf(o *JWTOptions) (*keySource, error) {
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
	guard := verifierGuard(o.AllowLoopback, o.AllowNetworks, o.Resolver, maxDocument)
	if err := guard.Check(cmp.Or(o.KeysURL, o.Issuer)); err != nil {
		return nil, err
	}
	issuer, keysURL, client := o.Issuer, o.KeysURL, newHTTPClient(guard)
	return newKeySource(func(ctx context.Context) (string, []byte, error) {
		location, named := keysURL, issuer
		if location == "" {
			var err error
			if named, location, err = discoverKeys(ctx, client, issuer); err != nil {
				return "", nil, err
			}
		}
		body, _, err := guard.Get(ctx, location, maxDocument)
		return named, body, err
	}), nil
}

// verifierGuard returns the guard of a verifier's HTTP requests.
func verifierGuard(loopback bool, networks []netip.Prefix, resolver *net.Resolver, maxBody int64) *netguard.Guard {
	return netguard.New(&netguard.Options{
		AllowLoopback: loopback, Allow: networks, Resolver: resolver, Timeout: keysTimeout, MaxBody: maxBody,
	})
}

// discoverKeys returns the jwks_uri of an issuer's metadata, and the issuer as they name it.
func discoverKeys(ctx context.Context, client *http.Client, issuer string) (named, location string, err error) {
	location, err = findServerDocument(ctx, client, issuer, func(d *document, issuer string) (keys string, err error) {
		named = issuer
		d.get("jwks_uri", &keys)
		if d.err == nil && strings.TrimSpace(keys) == "" {
			return "", d.wrong("expected the member jwks_uri")
		}
		return keys, d.err
	})
	return named, location, err
}

// find returns the keys with which a token may be signed.
func (s *keySource) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) ([]*jose.JSONWebKey, error) {
	set := s.current.Load()
	if s.load == nil {
		return set.candidates(id, algorithm)
	}
	var err error
	now := time.Now()
	switch {
	case set == nil || now.Sub(set.at) > keysStale:
		if set, err = s.refresh(ctx, set); err != nil {
			return nil, err
		}
	case now.Sub(set.at) > keysLate && s.last.Load().err == nil: // after a failure, tokens do not wait
		if newer, err := s.refresh(ctx, set); err == nil {
			set = newer
		}
	case now.Sub(set.at) > keysFresh && !s.isTooEarly():
		s.startFetch(set)
	}
	found, err := set.candidates(id, algorithm)
	if err == nil {
		return found, nil
	}
	// The issuer may have published new keys.
	newer, fetchErr := s.refresh(ctx, set)
	if fetchErr != nil {
		return nil, fetchErr
	}
	return newer.candidates(id, algorithm)
}

func (s *keySource) isTooEarly() bool {
	last := s.last.Load()
	return last != nil && time.Since(last.at) < keysRetry
}

// refresh returns newer keys than old, or old again if there are none.
func (s *keySource) refresh(ctx context.Context, old *keySet) (*keySet, error) {
	if s.isTooEarly() {
		return s.lastResult(old)
	}
	select {
	case result := <-s.startFetch(old):
		set, _ := result.Val.(*keySet)
		return set, result.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lastResult returns the result of the last fetch.
func (s *keySource) lastResult(old *keySet) (*keySet, error) {
	if set := s.current.Load(); set != old {
		return set, nil
	}
	if err := s.last.Load().err; err != nil || old == nil {
		return nil, err
	}
	return old, nil
}

// startFetch starts a fetch, unless one is running. The fetch is not canceled when its
// caller leaves: otherwise clients that leave early could prevent every fetch.
func (s *keySource) startFetch(old *keySet) <-chan singleflight.Result {
	return s.fetches.DoChan("", func() (any, error) { return s.fetch(old) })
}

func (s *keySource) fetch(old *keySet) (*keySet, error) {
	if s.isTooEarly() || s.current.Load() != old {
		return s.lastResult(old)
	}
	ctx, cancel := context.WithTimeout(s.lifetime, 2*keysTimeout)
	defer cancel()
	issuer, body, err := s.load(ctx)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(body)
	}
	if err != nil {
		err = fmt.Errorf("the keys of the issuer: %w", err)
		s.last.Store(&fetchAttempt{time.Now(), err})
		return nil, err
	}
	set := &keySet{issuer: issuer, keys: keys, at: time.Now()}
	s.current.Store(set)
	s.last.Store(&fetchAttempt{at: set.at})
	return set, nil
}

// close cancels fetches and waits for the running one.
func (s *keySource) close(cause error) {
	s.cancel(cause)
	<-s.fetches.DoChan("", func() (any, error) { return nil, cause })
}

// A keySet is a set of public keys.
type keySet struct {
	issuer string // as its metadata name it; "" for fixed keys
	keys   []jose.JSONWebKey
	at     time.Time // when it was fetched
}

var (
	errUnknownKey = &InvalidTokenError{Reason: "it is signed with a key that its issuer does not publish"}
	errNoKeys     = errors.New("the JWK Set has no key for verifying signatures")
)

// parseKeys parses a JWK Set. It ignores keys that are unknown, too weak or for another
// purpose: RFC 7517, section 5.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	document, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(document.Get("keys"), &items); err != nil {
		return nil, errors.New("expected a JWK Set: an object with a list of keys")
	}
	if len(items) > maxKeys {
		return nil, fmt.Errorf("the JWK Set has more than %d keys", maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, item := range items {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(item) == nil && (key.Use == "" || key.Use == "sig") && allowsVerify(item) && isSignatureKey(key.Key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	return keys, nil
}

// allowsVerify checks key_ops. RFC 7517, section 4.3.
func allowsVerify(key json.RawMessage) bool {
	members, err := jsonscan.ReadObject(key)
	if err != nil {
		return false
	}
	operations := members.Get("key_ops")
	return operations == nil || strings.Contains(string(operations), `"verify"`)
}

// candidates returns the keys with an ID for an algorithm. A token without a key ID is
// verified only if one key fits.
func (s *keySet) candidates(id string, algorithm jose.SignatureAlgorithm) ([]*jose.JSONWebKey, error) {
	var found []*jose.JSONWebKey
	for i := range s.keys {
		key := &s.keys[i]
		if (id == "" || key.KeyID == id) && isKeyFor(key, algorithm) {
			found = append(found, key)
		}
	}
	if len(found) == 0 || len(found) > maxCandidates || id == "" && len(found) > 1 {
		return nil, errUnknownKey
	}
	return found, nil
}

func isKeyFor(key *jose.JSONWebKey, algorithm jose.SignatureAlgorithm) bool {
	if key.Algorithm != "" && key.Algorithm != string(algorithm) {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(string(algorithm), "RS") || strings.HasPrefix(string(algorithm), "PS")
	case *ecdsa.PublicKey:
		return algorithm == curveAlgorithm(public.Curve)
	case ed25519.PublicKey:
		return algorithm == jose.EdDSA
	}
	return false
}

func curveAlgorithm(curve elliptic.Curve) jose.SignatureAlgorithm {
	switch curve {
	case elliptic.P256():
		return jose.ES256
	case elliptic.P384():
		return jose.ES384
	case elliptic.P521():
		return jose.ES512
	}
	return ""
}
