package state

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// rotation is how long a secret seals, in a key that rotates.
	rotation = 24 * time.Hour
	// rotationDelay is how long all replicas know a secret before one of them seals with it. It is longer than
	// afterFailure.
	rotationDelay = time.Minute
	// secretsAge is how old the known secrets may be when something is sealed. A store that has lost its data may get
	// other secrets, and the replica that opens it would not know the earlier ones.
	secretsAge = time.Second
	// afterFailure is the pause after a reading that has failed, if the known secrets suffice.
	afterFailure = 30 * time.Second
	// readInterval is the pause after a reading that has failed, or has not helped to open something.
	readInterval = time.Second
	// readTimeout bounds reading and changing the secrets.
	readTimeout = 2 * time.Second
)

// ErrNoKey says that the secrets of a [Key] cannot be read from the store, and that no known one suffices. It wraps the
// error of the store.
var ErrNoKey = errors.New("state: the key cannot be read from the store")

// A Key seals with secrets that replicas share in a store. The first replica that needs one creates it. A replica reads
// the record again when it uses the key, at most once a second, and when something cannot be opened. If the store has
// lost secrets that the replica knows, it adds them again beside the secrets of other replicas. While the store cannot
// be reached, the known secrets are used. A Key may be used concurrently.
type Key struct {
	name   string // "" for a key that does not change
	stored Records[[]secret]
	life   time.Duration
	logger *slog.Logger
	known  atomic.Pointer[secrets] // nil before the first time

	mutex    chan struct{} // locked while it has a value; a context can end the wait
	tried    time.Time     // when the last reading began
	failure  error         // of the last reading
	lastMiss time.Time     // when the last reading did not help to open something
}

// FixedKey returns a key that is not in a store.
func FixedKey(ring *token.Ring) *Key {
	k := new(Key)
	k.known.Store(&secrets{rings: []*token.Ring{ring}})
	return k
}

// SharedKey returns the key in a store with a name. life is how long a sealed text is valid. Every day, a new secret
// seals. An earlier secret is removed when all its sealed texts are invalid. If life is 0, the first secret seals for
// ever.
func SharedKey(kv store.KV, name string, life time.Duration, logger *slog.Logger) *Key {
	return &Key{name: name, stored: NewRecords[[]secret](kv, nil), life: life, logger: logger, mutex: make(chan struct{}, 1)}
}

// Seal is [token.Ring.Seal]. The error may also be [ErrNoKey], or the error of ctx.
func (k *Key) Seal(ctx context.Context, plaintext, binding []byte, expires time.Time) (string, error) {
	ring, err := k.Ring(ctx)
	if err != nil {
		return "", err
	}
	return ring.Seal(plaintext, binding, expires)
}

// Open is [token.Ring.Open]. The error may also be [ErrNoKey], or the error of ctx.
func (k *Key) Open(ctx context.Context, text string, binding []byte, now time.Time) ([]byte, error) {
	if !token.IsToken(text) {
		return nil, token.ErrForged
	}
	return k.open(ctx, func(ring *token.Ring) ([]byte, error) { return ring.Open(text, binding, now) })
}

// SealBytes is [token.Ring.SealBytes]. The error is [ErrNoKey], or the error of ctx.
func (k *Key) SealBytes(ctx context.Context, plaintext, binding []byte) ([]byte, error) {
	ring, err := k.Ring(ctx)
	if err != nil {
		return nil, err
	}
	return ring.SealBytes(plaintext, binding), nil
}

// Ring returns the secrets in a ring that seals as the key does now. Do not keep the ring longer than a request. The
// error is [ErrNoKey], or the error of ctx.
func (k *Key) Ring(ctx context.Context) (*token.Ring, error) {
	set, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	return set.sealing(time.Now()), nil
}

// OpenBytes is [token.Ring.OpenBytes]. The error may also be [ErrNoKey], or the error of ctx.
func (k *Key) OpenBytes(ctx context.Context, sealed, binding []byte) ([]byte, error) {
	return k.open(ctx, func(ring *token.Ring) ([]byte, error) { return ring.OpenBytes(sealed, binding) })
}

// open opens with the known secrets. If none of them does, it reads the record again.
func (k *Key) open(ctx context.Context, open func(*token.Ring) ([]byte, error)) ([]byte, error) {
	called := time.Now()
	set, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	plaintext, err := open(set.rings[0])
	if k.name == "" || !errors.Is(err, token.ErrForged) {
		return plaintext, err
	}
	if err := k.lock(ctx); err != nil {
		return nil, err
	}
	defer k.unlock()
	if set = k.known.Load(); set.read.After(called) {
		return open(set.rings[0])
	}
	if time.Since(k.lastMiss) < readInterval {
		return nil, token.ErrForged
	}
	if set, err = k.read(ctx); err != nil {
		return nil, err
	}
	plaintext, err = open(set.rings[0])
	if errors.Is(err, token.ErrForged) {
		k.lastMiss = time.Now()
	}
	return plaintext, err
}

// current returns the secrets. If they are older than secretsAge, one call reads them again; others use the known ones, and
// so does this one if that fails.
func (k *Key) current(ctx context.Context) (*secrets, error) {
	set := k.known.Load()
	if set == nil {
		if err := k.lock(ctx); err != nil {
			return nil, err
		}
		defer k.unlock()
		if set := k.known.Load(); set != nil {
			return set, nil
		}
		return k.read(ctx)
	}
	if k.name == "" || time.Since(set.read) < secretsAge {
		return set, nil
	}
	select {
	case k.mutex <- struct{}{}:
		defer k.unlock()
	default:
		return set, nil
	}
	if k.failure != nil && time.Since(k.tried) < afterFailure {
		return set, nil
	}
	if newer, err := k.read(ctx); err == nil {
		return newer, nil
	}
	return set, nil
}

func (k *Key) lock(ctx context.Context) error {
	select {
	case k.mutex <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *Key) unlock() { <-k.mutex }

// read reads the secrets from the store, unless that has just failed. The mutex must be locked. It goes on when ctx ends, so
// that a client that leaves does not stop it between reading and writing.
func (k *Key) read(ctx context.Context) (*secrets, error) {
	if k.failure != nil && time.Since(k.tried) < readInterval {
		return nil, k.failure
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	k.tried, k.failure = time.Now(), nil
	set, err := k.load(ctx)
	if err != nil {
		k.logger.Error("a key cannot be read from the store", "key", k.name, "error", err)
		k.failure = fmt.Errorf("%w: %w", ErrNoKey, err)
		return nil, k.failure
	}
	set.read = k.tried
	k.known.Store(set)
	return set, nil
}

// load reads the secrets, and changes the stored secrets if that is necessary.
func (k *Key) load(ctx context.Context) (*secrets, error) {
	var kept []secret // nil until the record was read
	rec, err := k.stored.Put(ctx, k.name, func(rec *Record[[]secret]) error {
		if _, err := deriveSecrets(rec.Value); rec.Stored() && err != nil {
			return fmt.Errorf("the record has invalid secrets: %w", err)
		}
		now := time.Now()
		kept = k.needed(rec.Value, now)
		wanted := k.rotated(kept, now)
		if slices.EqualFunc(wanted, rec.Value, secret.equal) {
			return ErrUnchanged
		}
		rec.Value = wanted
		return nil
	})
	switch {
	case err == nil:
		return deriveSecrets(rec.Value)
	case len(kept) == 0:
		return nil, err
	default: // without a new secret, which others do not know
		k.logger.Warn("a key cannot be changed in the store", "key", k.name, "error", err)
		return deriveSecrets(kept)
	}
}

// needed returns the secrets of the store and the secrets that it has lost. It leaves out secrets that nothing valid
// needs.
func (k *Key) needed(stored []secret, now time.Time) []secret {
	all := slices.Clone(stored)
	if known := k.known.Load(); known != nil {
		for _, s := range known.list {
			if !slices.ContainsFunc(all, s.equal) {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b secret) int { return a.From.Compare(b.From) })
	if k.life > 0 {
		for len(all) > 1 && now.Sub(all[1].From) > k.life+rotationDelay {
			all = all[1:]
		}
	}
	return all[max(0, len(all)-token.MaxKeys):]
}

// rotated returns the secrets with a new one, if it is time.
func (k *Key) rotated(kept []secret, now time.Time) []secret {
	if len(kept) == 0 {
		return []secret{newSecret(now)}
	}
	if k.life == 0 || now.Sub(kept[len(kept)-1].From) < rotation {
		return kept
	}
	return append(kept[max(0, len(kept)+1-token.MaxKeys):len(kept):len(kept)], newSecret(now.Add(rotationDelay)))
}

// secrets are the secrets of a record, with the keys that are derived from them. They are immutable.
type secrets struct {
	list  []secret      // oldest first
	rings []*token.Ring // each seals with the secret of the same index; all secrets open
	read  time.Time
}

// A secret seals from its time until the time of the next secret.
type secret struct {
	Secret []byte    `json:"secret"`
	From   time.Time `json:"from"`
}

func newSecret(from time.Time) secret {
	s := secret{make([]byte, token.MinKey), from.UTC()}
	rand.Read(s.Secret) // never fails
	return s
}

func (s secret) equal(other secret) bool { return bytes.Equal(s.Secret, other.Secret) }

// deriveSecrets returns secrets with their rings.
func deriveSecrets(list []secret) (*secrets, error) {
	if len(list) == 0 {
		return nil, errors.New("there are no secrets")
	}
	s := &secrets{list: list}
	for i := range list {
		keys := [][]byte{list[i].Secret}
		for j, other := range list {
			if j != i {
				keys = append(keys, other.Secret)
			}
		}
		ring, err := token.NewRing(keys...)
		if err != nil {
			return nil, err
		}
		s.rings = append(s.rings, ring)
	}
	return s, nil
}

// sealing returns the ring of the newest secret that may seal at a time.
func (s *secrets) sealing(now time.Time) *token.Ring {
	for i := len(s.list) - 1; i > 0; i-- {
		if !now.Before(s.list[i].From) {
			return s.rings[i]
		}
	}
	return s.rings[0]
}
