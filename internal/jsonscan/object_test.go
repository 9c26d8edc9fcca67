package jsonscan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func TestReadObject(t *testing.T) {
	m, err := jsonscan.ReadObject([]byte(` { "b" : 1 , "a":[ 2 ], "B":null,"n\u0061me":"x", "":{} } `))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for member := range m.All() {
		got = append(got, fmt.Sprintf("%s=%s", member.Name(), member.Value))
	}
	want := []string{"b=1", "a=[ 2 ]", "B=null", `name="x"`, "={}"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if m.Len() != len(want) {
		t.Errorf("Len = %d, want %d", m.Len(), len(want))
	}
	for name, want := range map[string]string{"b": "1", "B": "null", "name": `"x"`, "": "{}"} {
		if got := string(m.Get(name)); got != want {
			t.Errorf("Get(%q) = %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"A", "Name", "c", `n\u0061me`} {
		if got := m.Get(name); got != nil {
			t.Errorf("Get(%q) = %s, want nil", name, got)
		}
	}
}

func TestReadObjectRefuses(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "invalid JSON at byte 0: expected an object, found the end of the text"},
		{"[]", "invalid JSON at byte 0: expected an object, found '['"},
		{"{} 1", "invalid JSON at byte 3: expected the end of the text, found '1'"},
		{`{"a":tru}`, `invalid JSON at byte 5: expected true, found "tru}"`},
		{`{"a":1,"a":2}`, `duplicate member "a"`},
		{`{"a":1,"\u0061":2}`, `duplicate member "a"`},
		{`{"\u0061":1,"a":2}`, `duplicate member "a"`},
		{`{"\u0061":1,"\u0061":2}`, `duplicate member "a"`},
		{`{"\"":1,"\u0022":2}`, `duplicate member "\""`},
		{`{"":1,"":2}`, `duplicate member ""`},
		{`{"a\u0000b":1}`, `a name must not contain NUL: member "a\x00b"`},
	} {
		m, err := jsonscan.ReadObject([]byte(test.text))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
		if m.Len() != 0 {
			t.Errorf("%s: %d members in spite of the error", test.text, m.Len())
		}
	}
}

func TestDuplicateErrorTellsThePlace(t *testing.T) {
	_, err := jsonscan.ReadObject([]byte(`{"a":1, "b":2, "\u0061":3}`))
	var got *jsonscan.DuplicateError
	if !errors.As(err, &got) {
		t.Fatalf("%v is no DuplicateError", err)
	}
	if diff := cmp.Diff(&jsonscan.DuplicateError{Offset: 15, Key: "a"}, got); diff != "" {
		t.Error(diff)
	}
}

// ReadObject does not check objects below the object that it reads.
func TestReadObjectLooksAtOneLevel(t *testing.T) {
	if _, err := jsonscan.ReadObject([]byte(`{"a":{"b":1,"b":2}}`)); err != nil {
		t.Error(err)
	}
}

// objectOf returns an object with n members. Some of the names have escapes,
// many have the same length and ends.
func objectOf(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s:%d`, nameOf(i), i)
	}
	b.WriteByte('}')
	return b.String()
}

func nameOf(i int) string {
	if i%7 == 3 {
		return fmt.Sprintf(`"\u006b%06d-"`, i)
	}
	return fmt.Sprintf(`"k%06d-"`, i)
}

func TestObjectsOfEverySize(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 63, 64, 65, 66, 200, 16, 1000, 3} {
		text := objectOf(n)
		members, err := jsonscan.ReadObject([]byte(text))
		if err != nil {
			t.Fatalf("%d members: %v", n, err)
		}
		if members.Len() != n {
			t.Errorf("Len = %d, want %d", members.Len(), n)
		}
		i := 0
		for member := range members.All() {
			if want := fmt.Sprint(i); string(member.Value) != want {
				t.Fatalf("member %d is %s", i, member.Value)
			}
			i++
		}
		// Whichever name comes again at the end is noticed.
		for i := range n {
			again := fmt.Sprintf(`%s,"k%06d-":0}`, text[:len(text)-1], i)
			var duplicate *jsonscan.DuplicateError
			if _, err := jsonscan.ReadObject([]byte(again)); !errors.As(err, &duplicate) {
				t.Fatalf("%d members, number %d again: %v", n, i, err)
			}
		}
	}
}

func TestAllStopsWhenAsked(t *testing.T) {
	m, err := jsonscan.ReadObject([]byte(objectOf(20)))
	if err != nil {
		t.Fatal(err)
	}
	for _, stop := range []int{1, 16, 18} {
		seen := 0
		for range m.All() {
			if seen++; seen == stop {
				break
			}
		}
		if seen != stop {
			t.Errorf("saw %d members, want %d", seen, stop)
		}
	}
}

func TestMaxMembers(t *testing.T) {
	if _, err := jsonscan.ReadObject([]byte(objectOf(jsonscan.MaxMembers))); err != nil {
		t.Error(err)
	}
	_, err := jsonscan.ReadObject([]byte(objectOf(jsonscan.MaxMembers + 1)))
	var size *jsonscan.SizeError
	if !errors.As(err, &size) || err.Error() != "an object may have at most 65536 members" {
		t.Errorf("got %v, want a SizeError", err)
	}
}

func TestFind(t *testing.T) {
	for _, test := range []struct{ object, want string }{
		{`{}`, ""}, {`{"b":1}`, ""}, {`{"a":1}`, "1"}, {` { "b" : {"a":2} , "\u0061" : [3] } `, "[3]"}, {`{"A":1}`, ""},
	} {
		if got, err := jsonscan.Find([]byte(test.object), "a"); err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v", test.object, got, err)
		}
	}
	for _, text := range []string{``, `[]`, `"a"`, `{`, `{"a"`, `{"a":}`, `{"b":1,}`} {
		if _, err := jsonscan.Find([]byte(text), "a"); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestLine(t *testing.T) {
	plain := []byte(`{"a":"\n"}`)
	if got := jsonscan.Line(plain); &got[0] != &plain[0] {
		t.Errorf("a text of one line is copied: %s", got)
	}
	broken := []byte("{\r\n\"a\":\n1}")
	if got := string(jsonscan.Line(broken)); got != `{  "a": 1}` {
		t.Errorf("got %q", got)
	}
	if string(broken) != "{\r\n\"a\":\n1}" {
		t.Errorf("the text itself was changed: %q", broken)
	}
}
