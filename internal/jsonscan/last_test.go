package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func TestLastMembers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":2}`:                              `{"a":1,"b":2}`,
		`{"a":1,"a":2}`:                              `{"a":2}`,
		`{"a":1, "b":2 , "\u0061":3, "a" :4 }`:       `{"b":2 , "a" :4 }`,
		`{"a":{"x":1,"x":2},"a":[{"y":1,"y":2}]}`:    `{"a":[{"y":2}]}`,
		`[{"a":1,"a":{"b":1,"b":{"c":1,"c":null}}}]`: `[{"a":{"b":{"c":null}}}]`,
		` "a" `:  ` "a" `,
		`{}`:     `{}`,
		`[[],1]`: `[[],1]`,
	} {
		got, err := jsonscan.LastMembers([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`{"a":1,"a":2`, `{"a":1,"a":2}}`, `{"a" 1}`, strings.Repeat("[", 2000)} {
		if got, err := jsonscan.LastMembers([]byte(text)); err == nil {
			t.Errorf("%.40s: got %s", text, got)
		}
	}
}

// FuzzLastMembers checks that the result has no duplicates, and the value that encoding/json reads into an any.
func FuzzLastMembers(f *testing.F) {
	for _, text := range []string{`{"a":1,"a":2}`, `[{"a":{"b":1,"b":2},"a":{"c":3}}]`, `{"":1,"\u0000":2,"\u0000":3}`, `"x"`, `{"a":"\ud800","a":1e2}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		last, err := jsonscan.LastMembers(data)
		if (err == nil) != (jsonscan.Valid(data) == nil) {
			t.Fatalf("%q: %v", data, err)
		}
		if err != nil {
			return
		}
		if again, err := jsonscan.LastMembers(last); err != nil || !bytes.Equal(again, last) {
			t.Fatalf("%q has duplicates: %q, %v", data, again, err)
		}
		var want, got any
		if json.Unmarshal(data, &want) == nil && (json.Unmarshal(last, &got) != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q: %v, want %v", data, got, want)
		}
	})
}
