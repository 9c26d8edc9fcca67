package jsonrpc_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// acceptedIDs returns JSON texts that are ids.
func acceptedIDs() []string {
	ids := []string{
		`""`, `"a"`, `"1"`, `" "`, `"null"`, `"\u0061"`, `"a\/b"`, `"é"`, `"\u00e9"`, `"\uD83D\uDE00"`, `"\n"`, `"\u0000"`, `"<&>"`,
		`0`, `-0`, `-1`, `9007199254740991`, `9007199254740992`, `9007199254740993`, `-9007199254740993`,
		fmt.Sprint(math.MaxInt64), fmt.Sprint(math.MinInt64), fmt.Sprint(uint64(math.MaxUint64)), `18446744073709551616`,
		strings.Repeat("9", 30), "-" + strings.Repeat("9", 30), strings.Repeat("9", jsonrpc.MaxIDLength),
		`"` + strings.Repeat("x", jsonrpc.MaxIDLength-2) + `"`,
	}
	for i := range 63 {
		ids = append(ids, fmt.Sprint(int64(1)<<i), fmt.Sprint(-(int64(1)<<i)-1))
	}
	for i := range 20 {
		ids = append(ids, fmt.Sprintf(`"request-%d"`, i*i), `"`+strings.Repeat("é", i)+`"`)
	}
	return ids
}

// refusedIDs returns JSON texts that are no ids, with what the error says.
func refusedIDs() map[string]string {
	const kinds = "id must be a string or an integer, not "
	refused := map[string]string{
		`null`: kinds + "null", `true`: kinds + "a boolean", `false`: kinds + "a boolean",
		`{}`: kinds + "an object", `{"id":1}`: kinds + "an object", `[]`: kinds + "an array", `[1]`: kinds + "an array",
		`"` + strings.Repeat("x", jsonrpc.MaxIDLength) + `"`: "id must have at most 256 bytes, not 258",
		strings.Repeat("9", jsonrpc.MaxIDLength+1):           "id must have at most 256 bytes, not 257",
		"1." + strings.Repeat("0", 1000):                     "id must have at most 256 bytes, not 1002",
	}
	for _, number := range []string{`1.0`, `1.5`, `-0.0`, `1e3`, `1E3`, `1e-3`, `1.5e+3`, `9007199254740993.0`, `0e0`} {
		refused[number] = kinds + number
	}
	return refused
}

func TestIDsAreKeptByteForByte(t *testing.T) {
	for _, text := range acceptedIDs() {
		id, err := jsonrpc.ParseID([]byte(" " + text + "\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if id.String() != text || string(id.AppendJSON(nil)) != text || id.IsZero() {
			t.Errorf("%s became %s", text, id)
		}
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":` + text + `,"method":"m"}`,
			`{"jsonrpc":"2.0","id":` + text + `,"result":{}}`,
			`{"jsonrpc":"2.0","id":` + text + `,"error":{"code":-1,"message":""}}`,
		} {
			m, err := jsonrpc.Decode([]byte(message))
			if err != nil {
				t.Errorf("%s: %v", message, err)
				continue
			}
			if got, err := jsonrpc.Append(nil, m); err != nil || string(got) != message {
				t.Errorf("%s became %s, %v", message, got, err)
			}
		}
	}
}

func TestWhatIsNoID(t *testing.T) {
	for text, want := range refusedIDs() {
		if _, err := jsonrpc.ParseID([]byte(text)); err == nil || err.Error() != "jsonrpc: "+want {
			t.Errorf("ParseID(%s): %v, want %s", text, err, want)
		}
		wantRefusal(t, `{"jsonrpc":"2.0","id":`+text+`,"method":"m"}`, jsonrpc.InvalidRequest, want)
		wantRefusal(t, `{"jsonrpc":"2.0","id":`+text+`,"result":{}}`, jsonrpc.InvalidRequest, want)
	}
	for _, text := range []string{``, `01`, `+1`, `"a`, `1 2`, `"\uD800"`, `undefined`} {
		if id, err := jsonrpc.ParseID([]byte(text)); err == nil {
			t.Errorf("ParseID(%s) = %s", text, id)
		}
	}
}

func TestIDsCompareByTheirText(t *testing.T) {
	parse := func(text string) jsonrpc.ID {
		t.Helper()
		id, err := jsonrpc.ParseID([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if jsonrpc.IntID(1) != parse("1") || jsonrpc.StringID("é\n") != parse(`"é\n"`) {
		t.Error("equal ids differ")
	}
	if jsonrpc.IntID(1) == jsonrpc.StringID("1") || parse("9007199254740993") == parse("9007199254740992") {
		t.Error("different ids are equal")
	}
	if !(jsonrpc.ID{}).IsZero() || jsonrpc.IntID(0).IsZero() || jsonrpc.StringID("").IsZero() {
		t.Error("only the zero ID is none")
	}
}

func TestIDAsGoValue(t *testing.T) {
	var v struct{ A, B, C jsonrpc.ID }
	if err := json.Unmarshal([]byte(`{"A":9007199254740993,"B":"b"}`), &v); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(v)
	if want := `{"A":9007199254740993,"B":"b","C":null}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if err := json.Unmarshal([]byte(`{"A":1.5}`), &v); err == nil {
		t.Error("a fraction was accepted")
	}
}
