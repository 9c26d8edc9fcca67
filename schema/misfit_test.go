package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/schema"
)

// A shade has a method for text, and a grade has one for JSON.
type (
	shade string
	grade struct{ n int }
)

func (s *shade) UnmarshalText(text []byte) error {
	if string(text) != "light" {
		return fmt.Errorf("no shade\n%s\x00: expected light", text)
	}
	*s = shade(text)
	return nil
}

func (g *grade) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &g.n) }

type misfits struct {
	Days   int8             `json:"days,omitempty"`
	Size   uint16           `json:"size,omitempty"`
	ID     int64            `json:"id,omitempty"`
	Count  uint64           `json:"count,omitempty"`
	Text   int64            `json:"text,string,omitempty"`
	Ratio  float64          `json:"ratio,omitempty"`
	Part   float32          `json:"part,omitempty"`
	Key    []byte           `json:"key,omitempty"`
	Hash   [4]byte          `json:"hash,omitempty,omitzero"`
	At     time.Time        `json:"at,omitzero"`
	Ends   []time.Time      `json:"ends,omitempty"`
	ByDay  map[int8]int     `json:"byDay,omitempty"`
	Shade  shade            `json:"shade,omitempty"`
	Addr   netip.Addr       `json:"addr,omitzero"`
	Grade  grade            `json:"grade,omitzero"`
	Big    big.Int          `json:"big,omitzero"`
	Inside map[string]inner `json:"inside,omitempty"`
}

type inner struct {
	At   *time.Time `json:"at,omitempty"`
	Name string     `json:"name"`
}

// All violations are reported together: violations of the schema, and violations that only decoding finds.
func TestAllMisfits(t *testing.T) {
	d, err := schema.NewDecoder[misfits](nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ raw, want string }{
		"by the schema": {`{"days":300,"size":-1}`, `at "/days": expected at most 127, got 300
			at "/size": expected at least 0, got -1`},
		"numbers": {`{"id":9223372036854775808,"count":18446744073709551616,"text":"99999999999999999999","ratio":1e399,"part":1e39}`,
			`at "/id": expected an integer from -9223372036854775808 to 9223372036854775807, got 9223372036854775808
			at "/count": expected an integer from 0 to 18446744073709551615, got 18446744073709551616
			at "/text": expected an integer from -9223372036854775808 to 9223372036854775807, got "99999999999999999999"
			at "/ratio": expected a number from -1.7976931348623157e+308 to 1.7976931348623157e+308, got 1e399
			at "/part": expected a number from -3.4028234663852886e+38 to 3.4028234663852886e+38, got 1e39`},
		"text": {`{"key":"?","hash":"AAAA","at":"now","ends":["2026-01-31T09:30:00Z","later"],"shade":"grey","addr":"1.2.3"}`,
			`at "/key": expected text in base64 (RFC 4648), got "?"
			at "/hash": expected 4 bytes in base64 (RFC 4648), got "AAAA"
			at "/at": expected a date-time as in RFC 3339, such as 2026-01-31T09:30:00Z, got "now"
			at "/ends/1": expected a date-time as in RFC 3339, such as 2026-01-31T09:30:00Z, got "later"
			at "/shade": expected a valid value (no shade grey : expected light), got "grey"
			at "/addr": expected a valid value (ParseAddr("1.2.3"): IPv4 address too short), got "1.2.3"`},
		"methods": {`{"grade":"A","big":"x"}`, `at "/big": expected an integer, got the string "x"
			at "/grade": expected a valid value (an integer from -9223372036854775808 to 9223372036854775807), got "A"`},
		"keys": {`{"byDay":{"1":1,"300":2,"7":9223372036854775808},"id":9223372036854775808}`,
			`at "/byDay/300": expected an integer from -128 to 127, got "300"
			at "/byDay/7": expected an integer from -9223372036854775808 to 9223372036854775807, got 9223372036854775808
			at "/id": expected an integer from -9223372036854775808 to 9223372036854775807, got 9223372036854775808`},
		"of both": {`{"at":"now","days":1e3,"none":1,"id":1.0,"inside":{"a/b":{"at":"then"},"c":7},"ends":{"at":"now"},"key":"?"}`,
			`at "/days": expected at most 127, got 1e3
			at "/none": unknown member; accepted: days, size, id, count, text, ratio, part, key, hash, at, ends, byDay, shade, addr, grade, big, inside
			at "/inside/a~1b": missing "name" (accepted: at, name)
			at "/inside/c": expected an object, got the number 7
			at "/ends": expected an array, got an object
			at "/at": expected a date-time as in RFC 3339, such as 2026-01-31T09:30:00Z, got "now"
			at "/inside/a~1b/at": expected a date-time as in RFC 3339, such as 2026-01-31T09:30:00Z, got "then"
			at "/key": expected text in base64 (RFC 4648), got "?"`},
		"with null": {`{"id":null,"at":"now","days":300}`, `at "/days": expected at most 127, got 300
			at "/at": expected a date-time as in RFC 3339, such as 2026-01-31T09:30:00Z, got "now"`},
		"no JSON": {`{"at":"now","days":300`, `invalid JSON at byte 22: expected ',' or '}' after a member, found the end of the text`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := d.Decode(t.Context(), json.RawMessage(test.raw))
			if _, ok := errors.AsType[*schema.ValidationError](err); !ok {
				t.Fatalf("got a %T: %v", err, err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(test.want, "\t", ""), err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !got.At.IsZero() || got.Days != 0 {
				t.Errorf("a value beside an error: %+v", got)
			}
		})
	}
}

// A schema that accepts more than the type gives violations without Go types.
func TestMisfitsOfAGivenSchema(t *testing.T) {
	type given struct {
		S string         `json:"s"`
		B bool           `json:"b"`
		L []int          `json:"l"`
		A [2]int         `json:"a"`
		M map[string]int `json:"m"`
		O inner          `json:"o"`
		F float64        `json:"f"`
		I *int8          `json:"i"`
		N int            `json:"n"`
	}
	d, err := schema.NewDecoder[given](&schema.DecoderOptions{Schema: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Decode(t.Context(), json.RawMessage(`{"s":1,"b":"x","l":{},"a":[1,2,3],"m":[],"o":true,"f":"1","i":128,"n":1.5,"other":1}`))
	want := `at "/s": expected a string, got 1
at "/b": expected a boolean, got "x"
at "/l": expected an array, got an object
at "/a": expected an array of 2 items, got an array
at "/m": expected an object, got an array
at "/o": expected an object, got true
at "/f": expected a number from -1.7976931348623157e+308 to 1.7976931348623157e+308, got "1"
at "/i": expected an integer from -128 to 127, got 128
at "/n": expected an integer from -9223372036854775808 to 9223372036854775807, got 1.5`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// The number of violations is limited, and the size of a text that is decoded for each.
func TestMisfitLimits(t *testing.T) {
	texts := strings.TrimSuffix(strings.Repeat(`"x",`, 100), ",")
	for raw, want := range map[string]int{
		`{"ends":[` + texts + `]}`:                                                                   schema.MaxViolations,
		`{"days":300,"ends":[` + texts + `]}`:                                                        schema.MaxViolations,
		`{"ends":[` + texts + strings.Repeat(" ", 64<<10) + `]}`:                                     1,
		`{"days":300,"ends":[` + texts + strings.Repeat(" ", 64<<10) + `]}`:                          1,
		`{"shade":"` + strings.Repeat("x", 60<<10) + `","ends":["x","x"]}`:                           3,
		`{"days":300,"size":-1,"inside":{"` + strings.Repeat("x", 9000) + `":{"name":"","at":"x"}}}`: 3,
	} {
		_, err := schema.Decode[misfits](t.Context(), json.RawMessage(raw))
		invalid, ok := errors.AsType[*schema.ValidationError](err)
		if !ok || len(invalid.Violations) != want {
			t.Errorf("%.40s: not %d violations: %.400v", raw, want, err)
			continue
		}
		if size := len(err.Error()); size > 64<<10 {
			t.Errorf("%.40s: %d bytes", raw, size)
		}
	}
}
