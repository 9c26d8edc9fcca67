package state_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	keyName = "test/key"
	life    = 48 * time.Hour // of what is sealed
)

var binding = token.Binding("test")

func newStore(t testing.TB) store.Store {
	t.Helper()
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return memory
}

func sharedKey(kv store.KV, kept time.Duration) *state.Key {
	return state.SharedKey(kv, keyName, kept, slog.New(slog.DiscardHandler))
}

// forms are the two forms in which a key seals.
var forms = map[string]struct {
	seal func(ctx context.Context, k *state.Key) ([]byte, error)
	open func(ctx context.Context, k *state.Key, sealed []byte) ([]byte, error)
}{
	"token": {
		func(ctx context.Context, k *state.Key) ([]byte, error) {
			text, err := k.Seal(ctx, []byte("content"), binding, time.Now().Add(life))
			return []byte(text), err
		},
		func(ctx context.Context, k *state.Key, sealed []byte) ([]byte, error) {
			return k.Open(ctx, string(sealed), binding, time.Now())
		},
	},
	"value": {
		func(ctx context.Context, k *state.Key) ([]byte, error) {
			return k.SealBytes(ctx, []byte("content"), binding)
		},
		func(ctx context.Context, k *state.Key, sealed []byte) ([]byte, error) {
			return k.OpenBytes(ctx, sealed, binding)
		},
	},
}

// A replica opens the sealed texts of another replica, whatever has happened to the secrets in the store before.
func TestKeyOpensAtOtherReplicas(t *testing.T) {
	lose := func(t *testing.T, kv store.KV) {
		if err := kv.Delete(t.Context(), keyName, 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(t *testing.T, kv store.KV, a *state.Key) (b *state.Key){
		"nothing": func(_ *testing.T, kv store.KV, _ *state.Key) *state.Key { return sharedKey(kv, life) },
		"lost": func(t *testing.T, kv store.KV, _ *state.Key) *state.Key {
			lose(t, kv)
			return sharedKey(kv, life)
		},
		"lost, and replaced by another replica": func(t *testing.T, kv store.KV, _ *state.Key) *state.Key {
			lose(t, kv)
			b := sharedKey(kv, life)
			if _, err := b.Ring(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b
		},
		"lost three times": func(t *testing.T, kv store.KV, a *state.Key) (b *state.Key) {
			for range 3 {
				lose(t, kv)
				b = sharedKey(kv, life)
				for _, k := range []*state.Key{b, a} {
					if _, err := k.SealBytes(t.Context(), nil, nil); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(time.Second)
			}
			return b
		},
		"rotated": func(t *testing.T, kv store.KV, a *state.Key) *state.Key {
			<-time.After(25 * time.Hour)
			if _, err := a.Ring(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Minute)
			return sharedKey(kv, life)
		},
	} {
		for form, f := range forms {
			t.Run(name+", "+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					kv := newStore(t)
					a := sharedKey(kv, life)
					sealed := func(k *state.Key) []byte {
						value, err := f.seal(t.Context(), k)
						if err != nil {
							t.Fatal(err)
						}
						return value
					}
					opens := func(k *state.Key, value []byte, sealed string) {
						if content, err := f.open(t.Context(), k, value); err != nil || string(content) != "content" {
							t.Errorf("what was sealed %s: opened %q, %v", sealed, content, err)
						}
					}
					before := sealed(a)
					<-time.After(time.Second)
					b := change(t, kv, a)
					opens(b, sealed(a), "by the first replica")
					opens(a, sealed(b), "by the second replica")
					opens(b, before, "before")
				})
			})
		}
	}
}

// A failingKV fails to write, or ends the context of a call that reads.
type failingKV struct {
	store.KV
	readOnly bool
	leave    context.CancelFunc // nil, or called after a value was read
}

var errReadOnly = errors.New("the store is read-only")

func (f *failingKV) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := f.KV.Get(ctx, key)
	if f.leave != nil {
		f.leave()
	}
	return item, err
}

func (f *failingKV) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case f.readOnly:
		return 0, errReadOnly
	}
	return f.KV.Create(ctx, key, value, ttl)
}

func (f *failingKV) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case f.readOnly:
		return 0, errReadOnly
	}
	return f.KV.Update(ctx, key, value, revision, ttl)
}

// A replica that cannot store lost secrets again keeps them until it can.
func TestKeyIsKeptUntilItIsStored(t *testing.T) {
	for name, replaced := range map[string]bool{"lost": false, "lost, and replaced": true} {
		for what, fail := range map[string]func(f *failingKV, leave context.CancelFunc){
			"the store is read-only": func(f *failingKV, _ context.CancelFunc) { f.readOnly = true },
			"the client leaves":      func(f *failingKV, leave context.CancelFunc) { f.leave = leave },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shared := newStore(t)
					kv := &failingKV{KV: shared}
					a := sharedKey(kv, life)
					before, err := a.SealBytes(t.Context(), []byte("content"), binding)
					if err != nil {
						t.Fatal(err)
					}
					if err := shared.Delete(t.Context(), keyName, 0); err != nil {
						t.Fatal(err)
					}
					b := sharedKey(shared, life)
					if replaced {
						if _, err := b.Ring(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					ctx, leave := context.WithCancel(t.Context())
					fail(kv, leave)
					for range 3 {
						<-time.After(time.Minute)
						if _, err := a.OpenBytes(ctx, before, binding); err != nil {
							t.Error(err)
						}
					}
					kv.readOnly, kv.leave = false, nil
					<-time.After(time.Minute)
					for i, k := range []*state.Key{a, b} { // a stores the secret again
						if content, err := k.OpenBytes(t.Context(), before, binding); err != nil || string(content) != "content" {
							t.Errorf("replica %d: opened %q, %v", i, content, err)
						}
					}
				})
			})
		}
	}
}

// A key without a life keeps its secret, and opens its sealed texts after years.
func TestKeyDoesNotRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := newStore(t)
		sealed, err := sharedKey(kv, 0).SealBytes(t.Context(), []byte("content"), binding)
		if err != nil {
			t.Fatal(err)
		}
		before, err := kv.Get(t.Context(), keyName)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * 365 * 24 * time.Hour)
		later := sharedKey(kv, 0)
		if content, err := later.OpenBytes(t.Context(), sealed, binding); err != nil || string(content) != "content" {
			t.Errorf("opened %q, %v", content, err)
		}
		if after, err := kv.Get(t.Context(), keyName); err != nil || !bytes.Equal(after.Value, before.Value) {
			t.Errorf("the record is now %s, %v", after.Value, err)
		}
	})
}

// The number of secrets is bounded, however often the store loses them.
func TestKeyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := newStore(t)
		first := sharedKey(kv, 0)
		for range 2 * token.MaxKeys {
			if err := kv.Delete(t.Context(), keyName, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := sharedKey(kv, 0).Ring(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute)
			sealed, err := first.SealBytes(t.Context(), nil, binding)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sharedKey(kv, 0).OpenBytes(t.Context(), sealed, binding); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A fixed key opens its own sealed texts only.
func TestFixedKey(t *testing.T) {
	ring, err := token.NewRing()
	if err != nil {
		t.Fatal(err)
	}
	other, err := token.NewRing()
	if err != nil {
		t.Fatal(err)
	}
	for form, f := range forms {
		sealed, err := f.seal(t.Context(), state.FixedKey(ring))
		if err != nil {
			t.Fatal(err)
		}
		if content, err := f.open(t.Context(), state.FixedKey(ring), sealed); err != nil || string(content) != "content" {
			t.Errorf("%s: opened %q, %v", form, content, err)
		}
		if _, err := f.open(t.Context(), state.FixedKey(other), sealed); !errors.Is(err, token.ErrForged) {
			t.Errorf("%s: another key: %v", form, err)
		}
	}
}

// The format of the record stays as it is, because replicas of different versions share it.
func TestFormatOfKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := newStore(t)
		golden, err := os.ReadFile("testdata/key.json")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Create(t.Context(), keyName, golden, 0); err != nil {
			t.Fatal(err)
		}
		k := sharedKey(kv, 24*time.Hour)
		ring, err := token.NewRing(bytes.Repeat([]byte{1}, token.MinKey))
		if err != nil {
			t.Fatal(err)
		}
		if content, err := k.OpenBytes(t.Context(), ring.SealBytes([]byte("content"), binding), binding); err != nil || string(content) != "content" {
			t.Errorf("opened %q, %v", content, err)
		}
		if err := kv.Delete(t.Context(), keyName, 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if _, err := k.Ring(t.Context()); err != nil {
			t.Fatal(err)
		}
		if item, err := kv.Get(t.Context(), keyName); err != nil || string(item.Value) != string(golden) {
			t.Errorf("the record is now %s, %v", item.Value, err)
		}
	})
}
