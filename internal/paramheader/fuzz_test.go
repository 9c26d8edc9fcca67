package paramheader_test

import (
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/paramheader"
)

// FuzzEncode checks that every value is safe in a header and decoded unchanged.
func FuzzEncode(f *testing.F) {
	for _, test := range encoded {
		f.Add(test.value)
	}
	f.Fuzz(func(t *testing.T, value string) { checkRoundTrip(t, value) })
}

// FuzzDecode checks that a decoded value is valid UTF-8 and can be encoded.
func FuzzDecode(f *testing.F) {
	for _, test := range encoded {
		f.Add(test.header)
	}
	f.Add("=?base64?SGVsbG8?=")
	f.Add("=?base64?/w==?=")
	f.Add("\t=?base64??=\x7f")
	f.Fuzz(func(t *testing.T, header string) {
		value, err := paramheader.Decode(header)
		if err != nil {
			if value != "" {
				t.Fatalf("%q is %q and %v", header, value, err)
			}
			return
		}
		if !utf8.ValidString(value) {
			t.Fatalf("%q is %q", header, value)
		}
		if again, err := paramheader.Decode(paramheader.Encode(value)); err != nil || again != value {
			t.Fatalf("%q is %q, which goes as %q, %v", header, value, again, err)
		}
	})
}

// FuzzCompile checks that accepted annotations are valid header names, and that the
// client's headers pass the check.
func FuzzCompile(f *testing.F) {
	f.Add([]byte(three), []byte(`{"s":"x","i":4.2e1,"b":true,"o":{"p":"é\n"}}`))
	f.Add([]byte(withProperties(`"a":{"properties":{"":{"type":"integer","\u0078-mcp-header":"~"}}}`)), []byte(`{"a":{"":-0.0}}`))
	f.Add([]byte(`{"x-mcp-header":"","properties":{"x-mcp-header":{}},"allOf":[{},[]]}`), []byte(`null`))
	f.Add([]byte(`{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"x-mcp-header"}}}`), []byte(`{"x-mcp-header":"=?base64?"}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		params, err := paramheader.Compile(schema)
		if err != nil {
			if params != nil {
				t.Fatalf("%q: %v and %v", schema, params, err)
			}
			return
		}
		header := http.Header{}
		for name, value := range params.All(arguments) {
			end, ok := strings.CutPrefix(name, paramheader.ParamPrefix)
			if !ok || end == "" || http.CanonicalHeaderKey(name) != name || strings.Trim(end, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				t.Fatalf("%q has header %q", schema, name)
			}
			if header[name] != nil {
				t.Fatalf("%q has header %q twice", schema, name)
			}
			if mirrored, err := paramheader.Decode(value); err != nil || paramheader.Encode(mirrored) != value {
				t.Fatalf("%q of %q has %q: %q, %v", schema, arguments, name, value, err)
			}
			header[name] = []string{value}
		}
		if jsonscan.Valid(arguments) != nil {
			return
		}
		err = params.Check(header.Values, arguments)
		if err != nil && !strings.Contains(err.Error(), "given twice") && !strings.Contains(err.Error(), "2^53") {
			t.Fatalf("%q of %q with %q: %v", schema, arguments, header, err)
		}
	})
}

// FuzzInteger compares numbers with math/big.
func FuzzInteger(f *testing.F) {
	for _, pair := range [][2]string{{"42", "4.2e1"}, {"-0", "0.0"}, {"9007199254740991", "9007199254740992"}, {"1e-1", "0.1"}, {"10000000000000000000000e-22", "1"}, {"18446744073709551658", "42"}} {
		f.Add(pair[0], pair[1])
	}
	params := compile(f, three)
	f.Fuzz(func(t *testing.T, body, header string) {
		scan := jsonscan.New([]byte(body))
		if raw, err := scan.Number(); err != nil || len(raw) != len(body) {
			return
		}
		if len(body) > 100 || exponent(body) > 4 || exponent(header) > 4 {
			return // too much for math/big
		}
		text := strings.Trim(header, " \t")
		if strings.HasPrefix(text, "=?base64?") {
			return
		}
		err := params.Check(http.Header{"Mcp-Param-I": {header}}.Values, json.RawMessage(`{"i":`+body+`}`))

		want, ok := new(big.Rat).SetString(body)
		most := big.NewRat(paramheader.MaxInteger, 1)
		ok = ok && want.IsInt() && new(big.Rat).Abs(want).Cmp(most) <= 0
		number := jsonscan.New([]byte(text))
		raw, scanErr := number.Number()
		got, _ := new(big.Rat).SetString(text)
		ok = ok && scanErr == nil && len(raw) == len(text) && got != nil && got.Cmp(want) == 0
		if ok != (err == nil) {
			t.Fatalf("%q and %q: %v, want equal: %t", body, header, err, ok)
		}
	})
}

// exponent is how many digits the exponent of a number has.
func exponent(number string) int {
	_, after, _ := strings.Cut(strings.ToLower(number), "e")
	return len(after)
}
