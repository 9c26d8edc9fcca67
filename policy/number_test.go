package policy

import (
	"encoding/json"
	"math/big"
	"testing"
)

func FuzzNumber(f *testing.F) {
	for _, pair := range [][2]string{
		{"1", "1.0"}, {"9007199254740993", "9007199254740992"}, {"0.10", "1e-1"}, {"-0", "0"}, {"1e400", "1E+400"},
		{"-12.5", "-12.50001"}, {"0.001", "1e-3"}, {"100", "1e2"}, {"10.01", "1.001e1"}, {"99", "100"}, {"-1", "1"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, ok := rational(a)
		y, fine := rational(b)
		if !ok || !fine {
			return
		}
		m, ok := readNumber([]byte(a))
		n, fine := readNumber([]byte(b))
		if !ok || !fine {
			t.Fatalf("%q or %q is not understood", a, b)
		}
		if got, want := m.compare(n), x.Cmp(y); got != want {
			t.Errorf("%s compared with %s is %d, want %d", a, b, got, want)
		}
	})
}

func rational(text string) (*big.Rat, bool) {
	var n json.Number
	if len(text) > 40 || json.Unmarshal([]byte(text), &n) != nil || string(n) != text || text[0] == '"' {
		return nil, false
	}
	m, ok := readNumber([]byte(text))
	if !ok || m.magnitude > 1000 || m.magnitude < -1000 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// TestNumberBeyondBounds: what is too large to be taken in is not understood; it is not
// taken for something else.
func TestNumberBeyondBounds(t *testing.T) {
	for text, want := range map[string]bool{
		"1e99999999999999999": true, "1e100000000000000000": false, "1e-100000000000000000": false,
		"0e100000000000000000": true, "1e000000000000000000000000001": true,
	} {
		if _, ok := readNumber([]byte(text)); ok != want {
			t.Errorf("%s is understood: %t, want %t", text, ok, want)
		}
	}
}
