package jsonrpc_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Whatever bytes come in, the session lasts until they end; each line that is a
// call is answered once, each that is no message once, and nothing else is.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{}\n", call(1, "m", "") + "\n", call(1, "m", "") + call(1, "m", ""), "[]\n[" + call(1, "m", `[1]`) + "]",
		"Hello\r\n" + call(`"a"`, "m", `{"a":1}`) + "\r\n" + note("n", "") + "\n" + result(1, "{}") + "\n",
		"\ufeff" + call(1, "m", ""), strings.Repeat("[", 1001), strings.Repeat("x", 600) + "\n" + call(2, "m", ""),
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}` + "\n" + `{"jsonrpc":"1.0","id":1,"result":{}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}",
	} {
		f.Add([]byte(seed))
	}
	const maxLine = 512
	f.Fuzz(func(t *testing.T, input []byte) {
		var out bytes.Buffer
		lines := jsonrpc.NewLines(bytes.NewReader(input), &out, nothing{}, &jsonrpc.LineOptions{MaxLine: maxLine})
		h := handler{} // refuses every call
		if err := conn(lines, h, nil).Run(t.Context()); err != nil {
			t.Fatalf("Run returned %v", err)
		}
		want := map[string]int{}
		for line := range bytes.Lines(input) {
			if key, answered := answerTo(line, maxLine); answered {
				want[key]++
			}
		}
		got := map[string]int{}
		for line := range bytes.Lines(out.Bytes()) {
			msg, err := jsonrpc.Decode(bytes.TrimSpace(line))
			if err != nil {
				t.Fatalf("sent %q: %v", line, err)
			}
			resp, ok := msg.(*jsonrpc.Response)
			if !ok || resp.Error == nil {
				t.Fatalf("sent %q, want errors only", line)
			}
			got[resp.ID.String()]++
		}
		for id, n := range want {
			if got[id] != n {
				t.Errorf("%d answers to id %q, want %d", got[id], id, n)
			}
			delete(got, id)
		}
		if len(got) != 0 {
			t.Errorf("answers to nothing: %v", got)
		}
	})
}

// answerTo says with which id a line is to be answered, if at all.
func answerTo(line []byte, maxLine int) (id string, answered bool) {
	if len(bytes.TrimRight(line, "\r\n")) > maxLine {
		return "", true
	}
	line = bytes.Trim(line, " \t\r\n")
	if len(line) == 0 {
		return "", false
	}
	if jsonrpc.IsBatch(line) {
		return "", true
	}
	msg, err := jsonrpc.Decode(line)
	if bad, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
		return bad.ID.String(), !bad.Response
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok || req.IsNotification() {
		return "", false
	}
	return req.ID.String(), true
}
