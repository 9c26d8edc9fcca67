package schema

import (
	"bytes"
	"math"
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

// TestNumber compares numbers with math/big.
func TestNumber(t *testing.T) {
	for _, a := range numbers {
		for _, b := range numbers {
			compareNumbers(t, a, b)
		}
	}
}

func FuzzNumber(f *testing.F) {
	for i, text := range numbers {
		f.Add(text, numbers[len(numbers)-1-i])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, text := range []string{a, b} {
			if jsonscan.KindOf([]byte(text)) != jsonscan.Number || jsonscan.Valid([]byte(text)) != nil {
				return
			}
		}
		compareNumbers(t, strings.TrimSpace(a), strings.TrimSpace(b))
	})
}

func compareNumbers(t *testing.T, a, b string) {
	t.Helper()
	x, okX := parseNumber([]byte(a))
	y, okY := parseNumber([]byte(b))
	if !okX || !okY {
		return
	}
	ratX, _ := new(big.Rat).SetString(a)
	ratY, _ := new(big.Rat).SetString(b)
	if x.isInteger() != ratX.IsInt() {
		t.Errorf("%s: isInteger is %t", a, x.isInteger())
	}
	if got, want := string(x.append(nil)), ratX.RatString(); got != want {
		t.Errorf("%s is written %s, want %s", a, got, want)
	}
	m := &meter{limit: defaultMaxWork}
	formX, formY := canonical([]byte(a), math.MaxInt, m), canonical([]byte(b), math.MaxInt, m)
	if got, want := bytes.Equal(formX, formY), ratX.Cmp(ratY) == 0; got != want {
		t.Errorf("the forms of %s and %s are %s and %s", a, b, formX, formY)
	}
	if len(formX) > len(a)+len("e-1000") {
		t.Errorf("the form of %s is %s", a, formX)
	}
	if got, want := x.compare(y), ratX.Cmp(ratY); got != want {
		t.Errorf("%s compared with %s is %d, want %d", a, b, got, want)
	}
	if ratY.Sign() <= 0 {
		return
	}
	if got, want := x.isMultipleOf(y), new(big.Rat).Quo(ratX, ratY).IsInt(); got != want {
		t.Errorf("%s is a multiple of %s: %t, want %t", a, b, got, want)
	}
}

func TestNumberLimits(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Repeat("1", maxNumberDigits):          true,
		strings.Repeat("1", maxNumberDigits+1):        false,
		"0." + strings.Repeat("1", maxNumberDigits-1): true,
		"0." + strings.Repeat("1", maxNumberDigits):   false,
		"1e400":                        true,
		"1E+400":                       true,
		"1e-0400":                      true,
		"1e401":                        false,
		"1e-401":                       false,
		"0e401":                        false,
		"1e99999999999999999999999999": false,
	} {
		if ok := isBounded([]byte(text)); ok != want {
			t.Errorf("%.20s…: %t, want %t", text, ok, want)
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
		{`true`, `false`, false}, {`null`, `false`, false}, {`0`, `false`, false}, {`[]`, `{}`, false}, {`-0`, `0`, true}, {`"\n"`, `"\u000a"`, true}, {`1000000000000000000000`, `1e21`, true}, {`0.5`, `5e-1`, true}, {`[0.5]`, `["1/2"]`, false},
	} {
		m := &meter{limit: defaultMaxWork}
		if got := bytes.Equal(canonical([]byte(test.a), math.MaxInt, m), canonical([]byte(test.b), math.MaxInt, m)); got != test.want {
			t.Errorf("%s and %s: %t", test.a, test.b, got)
		}
	}
}
