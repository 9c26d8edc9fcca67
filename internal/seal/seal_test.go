package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/leak"
	"github.com/dovetail-go/dovetail/internal/seal"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	now     = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	later   = now.Add(time.Minute)
	binding = seal.Binding("ann", "tools/call")
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, seal.MinKey) }

func ring(t testing.TB, keys ...[]byte) *seal.Ring {
	t.Helper()
	r, err := seal.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sealed(t testing.TB, r *seal.Ring, plaintext string) string {
	t.Helper()
	token, err := r.Seal([]byte(plaintext), binding, later)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestRoundTrip(t *testing.T) {
	r := ring(t)
	for _, plaintext := range []string{"", "a", strings.Repeat("state", 1000)} {
		token := sealed(t, r, plaintext)
		got, err := r.Open(token, binding, now)
		if err != nil || string(got) != plaintext {
			t.Errorf("Open = %q, %v, want %q", got, err, plaintext)
		}
		if again := sealed(t, r, plaintext); again == token {
			t.Errorf("two tokens of %q are equal", plaintext)
		}
	}
}

func TestTokenHidesPlaintext(t *testing.T) {
	const secret = "attack at dawn"
	token := sealed(t, ring(t), secret)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "dt1."))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte(secret)) {
		t.Error("the token shows its plaintext")
	}
}

// TestChangedTokens changes every byte of a token to every other value, and cuts it
// everywhere.
func TestChangedTokens(t *testing.T) {
	r := ring(t)
	token := sealed(t, r, "state")
	refused := func(changed string) {
		t.Helper()
		if got, err := r.Open(changed, binding, now); !errors.Is(err, seal.ErrForged) || got != nil {
			t.Fatalf("Open(%q) = %q, %v, want ErrForged", changed, got, err)
		}
	}
	for i := range len(token) {
		for b := range 256 {
			if byte(b) != token[i] {
				refused(token[:i] + string([]byte{byte(b)}) + token[i+1:])
			}
		}
		refused(token[:i])
		refused(token[i+1:])
		refused(token[:i] + "\n" + token[i:])
		refused(token[:i] + "\r" + token[i:])
	}
	refused(token + "=")
	refused(token + "A")
	refused(token + "\n")
	refused(strings.Replace(token, "dt1.", "dt2.", 1))
	refused(strings.Repeat("A", seal.MaxToken+1))
	refused("dt1." + strings.Repeat("A", seal.MaxToken))
}

func TestBindingMustBeTheSame(t *testing.T) {
	r := ring(t)
	token := sealed(t, r, "state")
	for _, other := range [][]byte{nil, {}, seal.Binding("bob", "tools/call"), append(bytes.Clone(binding), 0), binding[1:]} {
		if _, err := r.Open(token, other, now); !errors.Is(err, seal.ErrForged) {
			t.Errorf("binding %q: %v, want ErrForged", other, err)
		}
	}
}

func TestBindingTellsPartsApart(t *testing.T) {
	seen := make(map[string][]string)
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"a", "b", "c"}, {"\x01a"}, {strings.Repeat("a", 300)}} {
		b := string(seal.Binding(parts...))
		if other, twice := seen[b]; twice {
			t.Errorf("%q and %q give the same binding", parts, other)
		}
		seen[b] = parts
	}
}

func TestExpiry(t *testing.T) {
	r := ring(t)
	token := sealed(t, r, "state")
	for _, test := range []struct {
		at   time.Time
		want error
	}{
		{later.Add(-time.Millisecond), nil},
		{later, seal.ErrExpired},
		{later.Add(time.Hour), seal.ErrExpired},
	} {
		if _, err := r.Open(token, binding, test.at); !errors.Is(err, test.want) {
			t.Errorf("at %v: %v, want %v", test.at, err, test.want)
		}
	}
	if _, err := r.Open(token, nil, later); !errors.Is(err, seal.ErrForged) {
		t.Errorf("expired and forged: %v, want ErrForged", err)
	}
	never, err := r.Seal(nil, nil, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(never, nil, now); !errors.Is(err, seal.ErrExpired) {
		t.Errorf("zero expiry: %v, want ErrExpired", err)
	}
}

func TestRotation(t *testing.T) {
	before, during, after := ring(t, key(1)), ring(t, key(2), key(1)), ring(t, key(2))
	old, fresh := sealed(t, before, "old"), sealed(t, during, "fresh")
	for _, test := range []struct {
		name  string
		ring  *seal.Ring
		token string
		want  error
	}{
		{"old key, old token", before, old, nil},
		{"both keys, old token", during, old, nil},
		{"both keys, new token", during, fresh, nil},
		{"new key, new token", after, fresh, nil},
		{"new key, old token", after, old, seal.ErrForged},
		{"old key, new token", before, fresh, seal.ErrForged},
		{"random key", ring(t), fresh, seal.ErrForged},
	} {
		if _, err := test.ring.Open(test.token, binding, now); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

func TestRingKeepsItsKeys(t *testing.T) {
	k := key(1)
	r := ring(t, k)
	clear(k)
	if _, err := ring(t, key(1)).Open(sealed(t, r, "state"), binding, now); err != nil {
		t.Errorf("the ring changed with the caller's slice: %v", err)
	}
}

func TestNewRingRefuses(t *testing.T) {
	for name, keys := range map[string][][]byte{
		"short":    {key(1)[1:]},
		"nil":      {nil},
		"second":   {key(1), key(2)[1:]},
		"too many": make([][]byte, seal.MaxKeys+1),
	} {
		var bad *seal.KeyError
		if r, err := seal.NewRing(keys...); !errors.As(err, &bad) || r != nil {
			t.Errorf("%s: %v, want a KeyError", name, err)
		}
	}
}

func TestTokenLimit(t *testing.T) {
	r := ring(t)
	var made, refused int
	for size := seal.MaxToken*3/4 - 100; size < seal.MaxToken*3/4; size++ { // base64 makes 4 bytes of 3
		token, err := r.Seal(make([]byte, size), nil, later)
		var tooLong *seal.SizeError
		switch {
		case errors.As(err, &tooLong) && tooLong.Token > seal.MaxToken:
			refused++
		case err != nil || len(token) > seal.MaxToken:
			t.Fatalf("%d bytes of plaintext: token of %d, %v", size, len(token), err)
		default:
			made++
			if _, err := r.Open(token, nil, now); err != nil {
				t.Fatalf("token of %d bytes: %v", len(token), err)
			}
		}
	}
	if made == 0 || refused == 0 {
		t.Errorf("%d made, %d refused, want some of both", made, refused)
	}
}

func TestLongTokensCostNothing(t *testing.T) {
	r := ring(t)
	token := "dt1." + strings.Repeat("A", seal.MaxToken)
	allocs := testing.AllocsPerRun(10, func() {
		if _, err := r.Open(token, binding, now); !errors.Is(err, seal.ErrForged) {
			t.Errorf("%v, want ErrForged", err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations for a token that is too long", allocs)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := ring(t, key(1), key(2))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				token, err := r.Seal([]byte("state"), binding, later)
				if err != nil {
					t.Error(err)
				}
				if _, err := r.Open(token, binding, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// earlier is a token of key(1), binding and later that says "state".
const earlier = "dt1.8lUUWwB4pvzL05oQ-Vv4KHBwgDxt9iDmqdv1P2yFW4X_W3Zd6_Zoof483GdaMt1HMnUgQvA"

// TestFormatIsStable: tokens outlive the program that made them.
func TestFormatIsStable(t *testing.T) {
	got, err := ring(t, key(1)).Open(earlier, binding, now)
	if string(got) != "state" || err != nil {
		t.Errorf("Open = %q, %v", got, err)
	}
}

func FuzzOpen(f *testing.F) {
	r := ring(f, key(2), key(1))
	f.Add(earlier)
	f.Add(earlier[:len(earlier)-1])
	f.Add(earlier + "\n")
	f.Add("dt1.")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		got, err := r.Open(token, binding, now)
		if token == earlier {
			if string(got) != "state" || err != nil {
				t.Fatalf("Open = %q, %v", got, err)
			}
		} else if !errors.Is(err, seal.ErrForged) || got != nil {
			t.Fatalf("Open(%q) = %q, %v, want ErrForged", token, got, err)
		}
	})
}
