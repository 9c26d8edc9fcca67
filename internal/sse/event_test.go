package sse_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
)

func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		event sse.Event
		want  string
	}{
		{sse.Event{}, "data:\n\n"},
		{message("one"), "data: one\n\n"},
		{message("one\ntwo\rthree\r\nfour"), "data: one\ndata: two\ndata: three\ndata: four\n\n"},
		{message("\n\r\r\n\n\r"), "data:\ndata:\ndata:\ndata:\ndata:\ndata:\n\n"},
		{message(" one"), "data:  one\n\n"},
		{message("\u2028\u0085\x00"), "data: \u2028\u0085\x00\n\n"},
		{sse.Event{ID: "7"}, "id: 7\ndata:\n\n"},
		{sse.Event{Name: "ready"}, "event: ready\ndata:\n\n"},
		{sse.Event{Retry: 1500 * time.Millisecond}, "retry: 1500\n\n"},
		{sse.Event{Retry: 1}, "retry: 1\n\n"},
		{sse.Event{Retry: time.Second + 1}, "retry: 1001\n\n"},
		{sse.Event{Retry: 1<<63 - 1}, "retry: 9223372036855\n\n"},
		{sse.Event{ID: "7", Retry: time.Second}, "id: 7\nretry: 1000\ndata:\n\n"},
		{sse.Event{ID: " 7\u2028", Name: "a: b", Retry: time.Second, Data: []byte("{}")}, "id:  7\u2028\nevent: a: b\nretry: 1000\ndata: {}\n\n"},
	} {
		got, err := sse.Append([]byte("before|"), tt.event)
		if err != nil || string(got) != "before|"+tt.want {
			t.Errorf("%+v: %q and %v, want %q", tt.event, got, err, tt.want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	for _, c := range []string{"\r", "\n", "\r\n", "\x00", "data: x\n\nid: ", "x\x00y"} {
		for _, e := range []sse.Event{{ID: c}, {Name: c}, {ID: "good", Name: "x" + c + "y", Data: []byte("z")}} {
			refused(t, e)
		}
	}
	refused(t, sse.Event{Retry: -1})
	refused(t, sse.Event{Retry: -time.Hour, Data: []byte("x")})
}

func refused(t *testing.T, e sse.Event) {
	t.Helper()
	got, err := sse.Append([]byte("before"), e)
	bad, ok := errors.AsType[*sse.FieldError](err)
	if !ok || string(got) != "before" {
		t.Errorf("%+v: %q and %v, want a FieldError", e, got, err)
	} else if !strings.Contains(err.Error(), bad.Field) || !strings.Contains(err.Error(), "must not") {
		t.Errorf("%+v: the error says %q", e, err)
	}
}

func TestAppendComment(t *testing.T) {
	for text, want := range map[string]string{
		"":                     ":\n\n",
		"keep-alive":           ": keep-alive\n\n",
		"one\ndata: two":       ": one\n: data: two\n\n",
		"one\rtwo\r\n\nfour\n": ": one\n: two\n:\n: four\n:\n\n",
	} {
		if got := sse.AppendComment([]byte("before|"), text); string(got) != "before|"+want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A few fields and one message, as a server writes and a client reads them.
func ExampleAppend() {
	stream, err := sse.Append(nil, sse.Event{ID: "42", Name: "message", Data: []byte("first line\nsecond line")})
	if err != nil {
		fmt.Println(err)
		return
	}
	stream = sse.AppendComment(stream, "still there")
	fmt.Printf("%s", stream)
	// Output:
	// id: 42
	// event: message
	// data: first line
	// data: second line
	//
	// : still there
}

func ExampleNewReader() {
	r := sse.NewReader(strings.NewReader("id: 42\ndata: first line\ndata: second line\n\n: still there\n\n"), 1<<20)
	for {
		e, err := r.Next()
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Printf("%q\n", e.Data)
	}
	fmt.Println("to go on after", r.LastID())
	// Output:
	// "first line\nsecond line"
	// EOF
	// to go on after 42
}
