package schema

import (
	"hash/maphash"
	"math/big"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

var numbers = []string{
	"0", "-0", "0.0", "-0.00e5", "0e400", "1", "-1", "10", "1e1", "100e-1", "10.0", "0.1", "1e-1", "10e-2", "-0.1", "1.5", "15e-1",
	"9007199254740993", "9007199254740992", "9007199254740993.0", "900719925474099.3e1", "1e400", "-1e400", "1e-400", "9e399",
	"123456789012345678901234567890", "123456789012345678901234567891", "0.00000000000000000001", "1.0000000000000000000001",
	"999999999999999999", "-999999999999999999", "1000000000000000000", "12", "120", "1200e-2", "7", "21", "0.7", "2.1",
}

func rat(t *testing.T, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatal(text)
	}
	return r
}

// Decimals are held against math/big.
func TestDecimal(t *testing.T) {
	for _, a := range numbers {
		x, ok := parseDecimal([]byte(a))
		if !ok {
			t.Fatalf("%s is refused", a)
		}
		exact := rat(t, a)
		if x.isInteger() != exact.IsInt() {
			t.Errorf("%s: isInteger is %t", a, x.isInteger())
		}
		if x.isInteger() {
			if got, want := string(x.appendInteger(nil)), exact.Num().String(); got != want {
				t.Errorf("%s: as an integer %s, want %s", a, got, want)
			}
		}
		for _, b := range numbers {
			y, _ := parseDecimal([]byte(b))
			if got, want := sign(x.compare(&y)), exact.Cmp(rat(t, b)); got != want {
				t.Errorf("%s compared with %s is %d, want %d", a, b, got, want)
			}
			m, ok := newDivisor(y)
			if !ok {
				continue
			}
			if got, want := m.divides(&x), new(big.Rat).Quo(exact, rat(t, b)).IsInt(); got != want {
				t.Errorf("%s is a multiple of %s: %t, want %t", a, b, got, want)
			}
		}
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func FuzzDecimal(f *testing.F) {
	for i, text := range numbers {
		f.Add(text, numbers[len(numbers)-1-i])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if jsonscan.KindOf([]byte(a)) != jsonscan.Number || jsonscan.KindOf([]byte(b)) != jsonscan.Number ||
			jsonscan.Valid([]byte(a)) != nil || jsonscan.Valid([]byte(b)) != nil {
			return
		}
		a, b = strings.TrimSpace(a), strings.TrimSpace(b)
		x, okX := parseDecimal([]byte(a))
		y, okY := parseDecimal([]byte(b))
		if !okX || !okY {
			return
		}
		if got, want := sign(x.compare(&y)), rat(t, a).Cmp(rat(t, b)); got != want {
			t.Errorf("%s compared with %s is %d, want %d", a, b, got, want)
		}
		if x.isInteger() != rat(t, a).IsInt() {
			t.Errorf("%s: isInteger is %t", a, x.isInteger())
		}
		if m, ok := newDivisor(y); ok && m.divides(&x) != new(big.Rat).Quo(rat(t, a), rat(t, b)).IsInt() {
			t.Errorf("%s is a multiple of %s: %t", a, b, m.divides(&x))
		}
	})
}

func TestDecimalLimits(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Repeat("1", MaxNumberDigits):          true,
		strings.Repeat("1", MaxNumberDigits+1):        false,
		"0." + strings.Repeat("1", MaxNumberDigits-1): true,
		"0." + strings.Repeat("1", MaxNumberDigits):   false,
		"1e400":                        true,
		"1E+400":                       true,
		"1e-0400":                      true,
		"1e401":                        false,
		"1e-401":                       false,
		"0e401":                        false,
		"1e99999999999999999999999999": false,
	} {
		if _, ok := parseDecimal([]byte(text)); ok != want {
			t.Errorf("%.20s…: %t, want %t", text, ok, want)
		}
	}
}

func TestSmall(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-0": 0, "-12": -12, "999999999999999999": 999999999999999999} {
		if n, ok := small([]byte(text)); !ok || n != want {
			t.Errorf("%s: %d, %t", text, n, ok)
		}
	}
	for _, text := range []string{"1.0", "1e1", "1000000000000000000"} {
		if _, ok := small([]byte(text)); ok {
			t.Errorf("%s is not small", text)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`1`, ` 1.0 `, true}, {`1`, `"1"`, false}, {`"\u0061"`, `"a"`, true}, {`"a"`, `"b"`, false},
		{`[1,"a",null]`, `[ 1e0 , "\u0061" , null ]`, true}, {`[1]`, `[1,1]`, false}, {`[1,1]`, `[1]`, false},
		{`{"a":1,"b":[true]}`, `{"b":[true],"\u0061":1.0}`, true}, {`{"a":1}`, `{"a":1,"b":1}`, false}, {`{"a":1}`, `{"b":1}`, false},
		{`true`, `false`, false}, {`null`, `false`, false}, {`0`, `false`, false}, {`[]`, `{}`, false}, {`-0`, `0`, true},
	} {
		h := hasher{maphash.MakeSeed()}
		if got := equal([]byte(test.a), []byte(test.b), &meter{limit: DefaultMaxWork}); got != test.want {
			t.Errorf("%s and %s: %t", test.a, test.b, got)
		}
		if test.want && h.hash([]byte(test.a)) != h.hash([]byte(test.b)) {
			t.Errorf("%s and %s have different hashes", test.a, test.b)
		}
	}
}
