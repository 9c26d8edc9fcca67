package token_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/token"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var (
	now     = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	later   = now.Add(time.Minute)
	binding = token.Binding("ann", "tools/call")
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, token.MinKey) }

func ring(t testing.TB, keys ...[]byte) *token.Ring {
	t.Helper()
	r, err := token.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newToken(t testing.TB, r *token.Ring, plaintext string) string {
	t.Helper()
	sealed, err := r.Seal([]byte(plaintext), binding, later)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestRoundTrip(t *testing.T) {
	r := ring(t)
	for _, plaintext := range []string{"", "a", strings.Repeat("state", 1000)} {
		sealed := newToken(t, r, plaintext)
		got, err := r.Open(sealed, binding, now)
		if err != nil || string(got) != plaintext {
			t.Errorf("Open = %q, %v, want %q", got, err, plaintext)
		}
		if again := newToken(t, r, plaintext); again == sealed {
			t.Errorf("two tokens of %q are equal", plaintext)
		}
	}
}

func TestTokenHidesPlaintext(t *testing.T) {
	const secret = "attack at dawn"
	sealed := newToken(t, ring(t), secret)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sealed, "dt1."))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte(secret)) {
		t.Error("the token shows its plaintext")
	}
}

// TestChangedTokens changes each byte of a token to each other value, and cuts the token at
// each byte.
func TestChangedTokens(t *testing.T) {
	r := ring(t)
	sealed := newToken(t, r, "state")
	refused := func(changed string) {
		t.Helper()
		if got, err := r.Open(changed, binding, now); !errors.Is(err, token.ErrForged) || got != nil {
			t.Fatalf("Open(%q) = %q, %v, want ErrForged", changed, got, err)
		}
	}
	for i := range len(sealed) {
		for b := range 256 {
			if byte(b) != sealed[i] {
				refused(sealed[:i] + string([]byte{byte(b)}) + sealed[i+1:])
			}
		}
		refused(sealed[:i])
		refused(sealed[i+1:])
		refused(sealed[:i] + "\n" + sealed[i:])
		refused(sealed[:i] + "\r" + sealed[i:])
	}
	refused(sealed + "=")
	refused(sealed + "A")
	refused(sealed + "\n")
	refused(strings.Replace(sealed, "dt1.", "dt2.", 1))
	refused(strings.Repeat("A", token.MaxToken+1))
	refused("dt1." + strings.Repeat("A", token.MaxToken))
}

func TestBindingMustBeTheSame(t *testing.T) {
	r := ring(t)
	sealed := newToken(t, r, "state")
	for _, other := range [][]byte{nil, {}, token.Binding("bob", "tools/call"), append(bytes.Clone(binding), 0), binding[1:]} {
		if _, err := r.Open(sealed, other, now); !errors.Is(err, token.ErrForged) {
			t.Errorf("binding %q: %v, want ErrForged", other, err)
		}
	}
}

func TestBindingTellsPartsApart(t *testing.T) {
	seen := make(map[string][]string)
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"a", "b", "c"}, {"\x01a"}, {strings.Repeat("a", 300)}} {
		b := string(token.Binding(parts...))
		if other, twice := seen[b]; twice {
			t.Errorf("%q and %q give the same binding", parts, other)
		}
		seen[b] = parts
	}
}

func TestExpiry(t *testing.T) {
	r := ring(t)
	sealed := newToken(t, r, "state")
	for _, test := range []struct {
		at   time.Time
		want error
	}{
		{later.Add(-time.Millisecond), nil},
		{later, token.ErrExpired},
		{later.Add(time.Hour), token.ErrExpired},
	} {
		if _, err := r.Open(sealed, binding, test.at); !errors.Is(err, test.want) {
			t.Errorf("at %v: %v, want %v", test.at, err, test.want)
		}
	}
	if _, err := r.Open(sealed, nil, later); !errors.Is(err, token.ErrForged) {
		t.Errorf("expired and forged: %v, want ErrForged", err)
	}
	never, err := r.Seal(nil, nil, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(never, nil, now); !errors.Is(err, token.ErrExpired) {
		t.Errorf("zero expiry: %v, want ErrExpired", err)
	}
}

func TestRotation(t *testing.T) {
	before, during, after := ring(t, key(1)), ring(t, key(2), key(1)), ring(t, key(2))
	old, fresh := newToken(t, before, "old"), newToken(t, during, "fresh")
	for _, test := range []struct {
		name   string
		ring   *token.Ring
		sealed string
		want   error
	}{
		{"old key, old token", before, old, nil},
		{"both keys, old token", during, old, nil},
		{"both keys, new token", during, fresh, nil},
		{"new key, new token", after, fresh, nil},
		{"new key, old token", after, old, token.ErrForged},
		{"old key, new token", before, fresh, token.ErrForged},
		{"random key", ring(t), fresh, token.ErrForged},
	} {
		if _, err := test.ring.Open(test.sealed, binding, now); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

func TestRingKeepsItsKeys(t *testing.T) {
	k := key(1)
	r := ring(t, k)
	clear(k)
	if _, err := ring(t, key(1)).Open(newToken(t, r, "state"), binding, now); err != nil {
		t.Errorf("the ring changed with the caller's slice: %v", err)
	}
}

func TestNewRingRefuses(t *testing.T) {
	for name, keys := range map[string][][]byte{
		"short":    {key(1)[1:]},
		"nil":      {nil},
		"second":   {key(1), key(2)[1:]},
		"too many": make([][]byte, token.MaxKeys+1),
	} {
		var bad *token.KeyError
		if r, err := token.NewRing(keys...); !errors.As(err, &bad) || r != nil {
			t.Errorf("%s: %v, want a KeyError", name, err)
		}
	}
}

func TestTokenLimit(t *testing.T) {
	r := ring(t)
	var made, refused int
	for size := token.MaxToken*3/4 - 100; size < token.MaxToken*3/4; size++ { // base64 makes 4 bytes of 3
		sealed, err := r.Seal(make([]byte, size), nil, later)
		var tooLong *token.SizeError
		switch {
		case errors.As(err, &tooLong) && tooLong.Token > token.MaxToken:
			refused++
		case err != nil || len(sealed) > token.MaxToken:
			t.Fatalf("%d bytes of plaintext: token of %d, %v", size, len(sealed), err)
		default:
			made++
			if _, err := r.Open(sealed, nil, now); err != nil {
				t.Fatalf("token of %d bytes: %v", len(sealed), err)
			}
		}
	}
	if made == 0 || refused == 0 {
		t.Errorf("%d made, %d refused, want some of both", made, refused)
	}
}

func TestLongTokensCostNothing(t *testing.T) {
	r := ring(t)
	sealed := "dt1." + strings.Repeat("A", token.MaxToken)
	allocs := testing.AllocsPerRun(10, func() {
		if _, err := r.Open(sealed, binding, now); !errors.Is(err, token.ErrForged) {
			t.Errorf("%v, want ErrForged", err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations for a sealed that is too long", allocs)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := ring(t, key(1), key(2))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				sealed, err := r.Seal([]byte("state"), binding, later)
				if err != nil {
					t.Error(err)
				}
				if _, err := r.Open(sealed, binding, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// earlier is a token with the plaintext "state", sealed with key(1) and binding until later.
const earlier = "dt1.8lUUWwB4pvzL05oQ-Vv4KHBwgDxt9iDmqdv1P2yFW4X_W3Zd6_Zoof483GdaMt1HMnUgQvA"

// Sealed bytes open with a key of the ring, with the same binding, unchanged, and are no token.
func TestSealBytes(t *testing.T) {
	r, other := ring(t, key(2), key(1)), ring(t, key(3))
	large := bytes.Repeat([]byte("x"), 2*token.MaxToken)
	for _, plaintext := range [][]byte{nil, []byte("data"), large} {
		sealed := ring(t, key(1)).SealBytes(plaintext, binding)
		if got, err := r.OpenBytes(sealed, binding); err != nil || !bytes.Equal(got, plaintext) {
			t.Errorf("OpenBytes of %d bytes: %d bytes, %v", len(plaintext), len(got), err)
		}
		if len(sealed) != len(plaintext)+40 {
			t.Errorf("%d bytes are %d when sealed, want 40 more", len(plaintext), len(sealed))
		}
		for name, open := range map[string]func() ([]byte, error){
			"another key":     func() ([]byte, error) { return other.OpenBytes(sealed, binding) },
			"another binding": func() ([]byte, error) { return r.OpenBytes(sealed, nil) },
			"cut":             func() ([]byte, error) { return r.OpenBytes(sealed[:len(sealed)-1], binding) },
			"short":           func() ([]byte, error) { return r.OpenBytes(sealed[:39], binding) },
			"empty":           func() ([]byte, error) { return r.OpenBytes(nil, binding) },
			"as a token": func() ([]byte, error) {
				return r.Open("dt1."+base64.RawURLEncoding.EncodeToString(sealed), binding, now)
			},
		} {
			if got, err := open(); !errors.Is(err, token.ErrForged) || got != nil {
				t.Errorf("%s: %d bytes, %v, want ErrForged", name, len(got), err)
			}
		}
	}
	text := strings.TrimPrefix(newToken(t, r, "state"), "dt1.")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.OpenBytes(raw, binding); !errors.Is(err, token.ErrForged) {
		t.Errorf("a token as bytes: %v, want ErrForged", err)
	}
}

// TestFormatIsStable checks that tokens of earlier versions open.
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
	f.Fuzz(func(t *testing.T, sealed string) {
		got, err := r.Open(sealed, binding, now)
		if sealed == earlier {
			if string(got) != "state" || err != nil {
				t.Fatalf("Open = %q, %v", got, err)
			}
		} else if !errors.Is(err, token.ErrForged) || got != nil {
			t.Fatalf("Open(%q) = %q, %v, want ErrForged", sealed, got, err)
		}
	})
}

func BenchmarkToken(b *testing.B) {
	r := ring(b)
	for _, size := range []int{64, 4096} {
		plaintext := make([]byte, size)
		sealed := newToken(b, r, string(plaintext))
		for name, operation := range map[string]func() error{
			"Seal": func() error { _, err := r.Seal(plaintext, binding, later); return err },
			"Open": func() error { _, err := r.Open(sealed, binding, now); return err },
		} {
			b.Run(name+"/"+strconv.Itoa(size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := operation(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkOpenForged measures the most expensive token that a client can send.
func BenchmarkOpenForged(b *testing.B) {
	var keys [][]byte
	for i := range token.MaxKeys {
		keys = append(keys, key(byte(i)))
	}
	r := ring(b, keys...)
	sealed := "dt1." + strings.Repeat("A", (token.MaxToken-4)/4*4)
	b.SetBytes(int64(len(sealed)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(sealed, binding, now); err == nil {
			b.Fatal("a forged token opened")
		}
	}
}

func ExampleNewRing() {
	key := make([]byte, token.MinKey) // a real key comes from a secret store
	rand.Read(key)
	r, err := token.NewRing(key)
	if err != nil {
		panic(err)
	}

	now := time.Now()
	sealed, err := r.Seal([]byte("step 2 of 3"), token.Binding("ann", "tools/call"), now.Add(time.Minute))
	if err != nil {
		panic(err)
	}
	state, err := r.Open(sealed, token.Binding("ann", "tools/call"), now)
	fmt.Printf("%s, %v\n", state, err)
	_, err = r.Open(sealed, token.Binding("bob", "tools/call"), now)
	fmt.Println(errors.Is(err, token.ErrForged))
	_, err = r.Open(sealed, token.Binding("ann", "tools/call"), now.Add(time.Hour))
	fmt.Println(errors.Is(err, token.ErrExpired))
	// Output:
	// step 2 of 3, <nil>
	// true
	// true
}
