package openapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// find follows references and unescapes names (RFC 6901). The parser has already rejected most
// documents with circular references.
func TestFind(t *testing.T) {
	s := newSource(json.RawMessage(`{
		"a": {"b/c": [10, {"~": 20}], "": 30},
		"ref": {"$ref": "#/a"}, "chain": {"$ref": "#/ref"}, "beside": {"$ref": "#/a", "own": 40},
		"self": {"$ref": "#/self"}, "ping": {"$ref": "#/pong"}, "pong": {"$ref": "#/ping"}, "grows": {"$ref": "#/grows/x"},
		"away": {"$ref": "b.json"}, "number": {"$ref": 1}
	}`))
	for pointer, want := range map[string]string{
		"/a/b~1c/0":       "10",
		"/a/b~1c/1/~0":    "20",
		"/a/":             "30",
		"/ref/":           "30",
		"/chain/b~1c/0":   "10",
		"/beside/own":     "40",
		"/beside/b~1c/0":  "10",
		"/self":           `{"$ref": "#/self"}`,
		"/self/x":         "error: circular",
		"/ping/x":         "error: circular",
		"/grows/x":        "error: circular",
		"/away/x":         "error: another document, which is not supported",
		"/number/x":       "error: the document has no value at",
		"/a/b~1c/2":       "error: the document has no value at",
		"/a/b~1c/01x":     "error: the document has no value at",
		"/a/b~1c/0/x":     "error: the document has no value at",
		"a":               "error: is not a JSON Pointer",
		"/a/" + long("b"): "error: is not a JSON Pointer",
	} {
		_, value, err := s.find(pointer)
		got := string(value)
		if err != nil {
			got = "error: " + err.Error()
		}
		message, failure := strings.CutPrefix(want, "error: ")
		if failure && (err == nil || !strings.Contains(got, message)) || !failure && got != want {
			t.Errorf("%.40s: got %s, want %s", pointer, got, want)
		}
	}
}

func long(text string) string { return strings.Repeat(text, maxPointer) }
