package jsonrpc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

func TestIsBatch(t *testing.T) {
	for text, want := range map[string]bool{"[]": true, " \n[": true, "{}": false, "": false, `"["`: false} {
		if got := jsonrpc.IsBatch([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSplitBatch(t *testing.T) {
	items, err := jsonrpc.SplitBatch([]byte(` [ {"a": 1} , 2,"x"
] `), 3)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, string(item))
	}
	if diff := cmp.Diff([]string{`{"a": 1}`, `2`, `"x"`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSplitBatchRefuses(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		code  jsonrpc.Code
		want  string
	}{
		{`[]`, 3, jsonrpc.InvalidRequest, "a batch must not be empty"},
		{`{}`, 3, jsonrpc.InvalidRequest, "a batch must be an array, not an object"},
		{`[1,2,3,4]`, 3, jsonrpc.InvalidRequest, "a batch may hold at most 3 messages"},
		{"[0" + strings.Repeat(",1", 64) + "]", 0, jsonrpc.InvalidRequest, "a batch may hold at most 64 messages"},
		{`[1,2`, 3, jsonrpc.ParseError, "invalid JSON at byte 4: expected ',' or ']' after an element, found the end of the text"},
		{`[1,2,3,4,x]`, 3, jsonrpc.ParseError, "invalid JSON at byte 9: expected a value, found 'x'"},
	} {
		_, err := jsonrpc.SplitBatch([]byte(test.text), test.limit)
		var got *jsonrpc.DecodeError
		if !errors.As(err, &got) || got.Err.Code != test.code || got.Err.Message != test.want {
			t.Errorf("%s: %v, want %v: %s", test.text, err, test.code, test.want)
		}
	}
}
