package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// publisher is an issuer whose keys change and fail as tests want.
type publisher struct {
	t       *testing.T
	fetches atomic.Int64
	takes   time.Duration

	mu   sync.Mutex
	keys []jose.JSONWebKey
	err  error
}

func (p *publisher) source() *keySource { return newKeySource(p.load) }

func (p *publisher) load(ctx context.Context) (string, []byte, error) {
	p.fetches.Add(1)
	if p.takes > 0 {
		select {
		case <-time.After(p.takes):
		case <-ctx.Done():
			return "", nil, context.Cause(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return "", nil, p.err
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: p.keys})
	return "", keys, err
}

// publish replaces the keys.
func (p *publisher) publish(ids ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys, p.err = nil, nil
	for _, id := range ids {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			p.t.Fatal(err)
		}
		p.keys = append(p.keys, jose.JSONWebKey{Key: key.Public(), KeyID: id})
	}
}

var errDown = errors.New("down")

func (p *publisher) breakDown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errDown
}

// want checks the result of finding a key, and the number of fetches until then.
func (p *publisher) want(s *keySource, id string, want error, fetches int64) {
	p.t.Helper()
	keys, err := s.find(p.t.Context(), id, jose.ES256)
	if !errors.Is(err, want) || (err == nil) != (len(keys) == 1) {
		p.t.Errorf("the key %s: %d keys, error %v, want %v", id, len(keys), err, want)
	}
	synctest.Wait() // for background fetches
	if got := p.fetches.Load(); got != fetches {
		p.t.Errorf("the key %s: %d fetches, want %d", id, got, fetches)
	}
}

// pass advances the virtual time.
func pass(d time.Duration) { <-time.After(d) }

func inBubble(t *testing.T, test func(t *testing.T, p *publisher, s *keySource)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{t: t}
		p.publish("a")
		test(t, p, p.source())
	})
}

// A new key is found, but not within five seconds of the last fetch.
func TestRotation(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.want(s, "a", nil, 1)
		p.want(s, "a", nil, 1)
		p.publish("a", "b")
		p.want(s, "b", errUnknownKey, 1)
		pass(keysRetry)
		p.want(s, "b", nil, 2)
		p.publish("b")
		p.want(s, "a", nil, 2) // not fetched again yet
		pass(keysFresh + time.Second)
		p.want(s, "a", nil, 3) // starts a fetch in the background
		p.want(s, "a", errUnknownKey, 3)
		p.want(s, "b", nil, 3)
	})
}

// A key that the issuer has withdrawn is not accepted because no token came for hours: the first token
// then waits for newer keys. If the issuer is down or hangs, only that token waits.
func TestWithdrawnKey(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.want(s, "a", nil, 1)
		p.publish("b")
		pass(keysLate + time.Second)
		p.want(s, "a", errUnknownKey, 2)
		p.want(s, "b", nil, 2)
		p.breakDown()
		pass(keysLate + time.Second)
		p.want(s, "b", nil, 3)
		p.want(s, "b", nil, 3)
		p.publish("b")
		pass(keysRetry)
		p.want(s, "b", nil, 4)
	})
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.want(s, "a", nil, 1)
		p.takes = time.Hour
		pass(keysLate + time.Second)
		for i, want := range []time.Duration{2 * keysTimeout, 0, 0} {
			began := time.Now()
			if _, err := s.find(t.Context(), "a", jose.ES256); err != nil || time.Since(began) != want {
				t.Errorf("token %d: %v after %v, want none after %v", i, err, time.Since(began), want)
			}
			pass(keysRetry)
		}
		s.close(errDown)
	})
}

// Tokens with made-up key IDs do not cause many fetches.
func TestUnknownKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		for range 1000 {
			_, _ = s.find(t.Context(), rand.Text(), jose.ES256)
			pass(100 * time.Millisecond)
		}
		if got := p.fetches.Load(); got > 100*int64(time.Second)/int64(keysRetry)+1 {
			t.Errorf("%d fetches in 100 s", got)
		}
	})
}

// While the issuer is down, known keys are used for a day, and unknown keys do not make a
// token invalid.
func TestIssuerIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.breakDown()
		p.want(s, "a", errDown, 1)
		p.want(s, "a", errDown, 1)
		pass(keysRetry)
		p.publish("a")
		p.want(s, "a", nil, 2)
		p.breakDown()
		pass(keysRetry)
		p.want(s, "b", errDown, 3)
		p.want(s, "a", nil, 3)
		pass(keysFresh)
		p.want(s, "a", nil, 4)
		p.want(s, "a", nil, 4)
		pass(keysStale - keysFresh)
		p.want(s, "a", errDown, 5)
		p.publish("c")
		pass(keysRetry)
		p.want(s, "a", errUnknownKey, 6)
		p.want(s, "c", nil, 6)
	})
}

// Concurrent requests share one fetch. A request that waits ends with its client.
func TestFetchIsShared(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.takes = time.Second
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if keys, err := s.find(t.Context(), "a", jose.ES256); err != nil || len(keys) != 1 {
					t.Errorf("%d keys, %v", len(keys), err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.find(ctx, "a", jose.ES256); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
		all.Wait()
		p.want(s, "a", nil, 1)
	})
}

// A fetch continues when the client that started it leaves.
func TestFetchOutlastsItsClient(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.takes = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = s.find(ctx, "a", jose.ES256) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		p.want(s, "a", nil, 1)
	})
}

// Closing the source cancels a background fetch.
func TestFetchEndsWithItsSource(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.want(s, "a", nil, 1)
		p.takes = time.Hour
		pass(keysFresh + time.Second)
		began := time.Now()
		ctx, gone := context.WithCancel(t.Context())
		gone()
		if keys, err := s.find(ctx, "a", jose.ES256); err != nil || len(keys) != 1 {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		synctest.Wait()
		s.close(errDown)
		if last := s.last.Load(); !errors.Is(last.err, errDown) || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), last.err)
		}
		p.want(s, "a", nil, 2)
		s.close(errDown)
	})
}

// A fetch that hangs does not delay tokens with known keys, and times out.
func TestFetchHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, p *publisher, s *keySource) {
		p.want(s, "a", nil, 1)
		p.takes = time.Hour
		pass(keysFresh + time.Second)
		began := time.Now()
		for range 3 {
			p.want(s, "a", nil, 2)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waited for %v", waited)
		}
		_, err := s.find(t.Context(), "b", jose.ES256)
		if waited := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || waited != 2*keysTimeout {
			t.Errorf("after %v: %v", waited, err)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","kid":"1","key_ops":["verify"]}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"oct","k":"AA"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, err := parseKeys(body)
		if (err == nil) != (len(keys) > 0) || len(keys) > maxKeys {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, key := range keys {
			if !key.IsPublic() || key.Use != "" && key.Use != "sig" {
				t.Errorf("the key %+v is taken", key)
			}
		}
	})
}
