package mcp_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/suites"
)

// notDecoded names the kinds of official examples that this package has no
// type for, and why.
var notDecoded = map[string]string{
	"HeaderMismatchError": "jsonrpc.Error without data",
	"InputRequests":       "a map: covered by InputRequiredResult",
	"InputResponses":      "a map: covered by the parameters that hold it",
	"InternalError":       "jsonrpc.Error",
	"InvalidParamsError":  "jsonrpc.Error",
	"MethodNotFoundError": "jsonrpc.Error",
	"ParseError":          "jsonrpc.Error",
}

// TestExamples decodes every example of the specification and sends it on.
func TestExamples(t *testing.T) {
	dir, official := suites.Dir(t, "mcp/schema")
	if !official {
		dir = "testdata/suite"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "examples", "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples in %s: %v", dir, err)
	}
	used := make(map[string]bool)
	for _, file := range files {
		kind := filepath.Base(filepath.Dir(file))
		if notDecoded[kind] != "" {
			used[kind] = true
			continue
		}
		t.Run(kind+"/"+filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, data := objectOf(t, kind, data)
			if newCodec[name] == nil {
				t.Fatalf("no type for %s", name)
			}
			checkSentOn(t, name, data)
			checkSentOn(t, name, plant(t, data))
		})
	}
	for kind := range notDecoded {
		if official && !used[kind] {
			t.Errorf("the exception for %s is not needed", kind)
		}
	}
}

// objectOf takes what is ours out of a message.
func objectOf(t *testing.T, kind string, data []byte) (name string, object []byte) {
	t.Helper()
	var message struct {
		Params, Result json.RawMessage
		Error          struct{ Data json.RawMessage }
	}
	if err := json.Unmarshal(data, &message); err != nil {
		t.Fatal(err)
	}
	switch {
	case strings.HasSuffix(kind, "ResultResponse"):
		return canonicalType(strings.TrimSuffix(kind, "Response")), message.Result
	case strings.HasSuffix(kind, "Request"), strings.HasSuffix(kind, "Notification"):
		if message.Params == nil {
			message.Params = json.RawMessage("{}")
		}
		return canonicalType(paramsType(kind)), message.Params
	case strings.HasSuffix(kind, "Error"):
		return kind + "Data", message.Error.Data
	}
	return canonicalType(kind), data
}

func checkSentOn(t *testing.T, name string, data []byte) {
	t.Helper()
	value := newCodec[name]()
	if err := value.UnmarshalJSON(data); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	want, got := plainJSON(t, data), plainJSON(t, appended(t, value))
	if diff := cmp.Diff(asSent(want), got); diff != "" {
		t.Errorf("changed on its way (-came +went):\n%s", diff)
	}
}

// asSent puts a value into the form we choose where the protocol has two for the
// same: an array of one block in sampling goes out as the block, a flag that is
// false does not go out.
func asSent(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = asSent(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = asSent(value[key])
		}
		if blocks, ok := value["content"].([]any); ok && len(blocks) == 1 && value["role"] != nil {
			value["content"] = blocks[0]
		}
		maps.DeleteFunc(value, func(key string, value any) bool {
			return value == false && (key == "isError" || key == "hasMore")
		})
	}
	return value
}

// closed names the members whose objects are not ours to extend: a map of
// strings, or an object that another type holds.
var closed = map[string]string{
	"inputRequests": "a map of questions, which are a method and its params",
	"items":         "a keyword of JSON Schema, in the schema of a choice",
	"oneOf":         "a keyword of JSON Schema, in the schema of a choice",
	"anyOf":         "a keyword of JSON Schema, in the schema of a choice",
}

// plant puts an unknown member into every object of a text.
func plant(t *testing.T, data []byte) []byte {
	t.Helper()
	count := 0
	var visit func(value any, stringsOnly bool)
	visit = func(value any, stringsOnly bool) {
		switch value := value.(type) {
		case []any:
			for _, item := range value {
				visit(item, false)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				_, isClosed := closed[key]
				if !isClosed {
					visit(value[key], key == "arguments")
				}
			}
			if count++; stringsOnly {
				value["x-unknown"] = "planted"
			} else {
				value["x-unknown"] = map[string]any{"nth": json.Number(strconv.Itoa(count)), "deep": []any{json.Number("1.0"), nil}}
			}
		}
	}
	value := plainJSON(t, data)
	visit(value, false)
	planted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(planted, data) {
		t.Fatal("nothing was planted")
	}
	return planted
}

func TestPlantReachesEveryLevel(t *testing.T) {
	planted := plant(t, []byte(`{"a":{"b":[{}]},"arguments":{"c":"d"},"items":{}}`))
	if n := bytes.Count(planted, []byte("x-unknown")); n != 4 {
		t.Errorf("planted %d members, want 4: %s", n, planted)
	}
}
