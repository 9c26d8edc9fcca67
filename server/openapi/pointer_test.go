package openapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// Values are found by pointer, through references, as RFC 6901 spells names. The parser
// refuses most documents with circles before they come here.
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
		"/self/x":         "error: run in a circle",
		"/ping/x":         "error: run in a circle",
		"/grows/x":        "error: run in a circle",
		"/away/x":         "error: other documents are never fetched",
		"/number/x":       "error: nothing at",
		"/a/b~1c/2":       "error: nothing at",
		"/a/b~1c/01x":     "error: nothing at",
		"/a/b~1c/0/x":     "error: nothing at",
		"a":               "error: no JSON Pointer",
		"/a/" + long("b"): "error: no JSON Pointer",
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
