package sse_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// Whatever comes, and in whatever pieces, it ends, in bounds and with the same
// events; what was read can be written.
func FuzzReader(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s.text), 100)
	}
	f.Add([]byte("data: too long\n\n"), 3)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit &= 1<<16 - 1
		events, err := readAll(sse.NewReader(bytes.NewReader(text), limit))
		if !errors.Is(err, io.EOF) && !errors.As(err, new(*sse.TooLongError)) {
			t.Fatalf("the stream ended with %v", err)
		}
		for _, e := range events {
			if len(e.Data) > limit || len(e.ID) > sse.MaxField || len(e.Name) > sse.MaxField {
				t.Errorf("an event of %d, %d and %d bytes is beyond its limit", len(e.Data), len(e.ID), len(e.Name))
			}
			if e.Retry != 0 && (e.Retry < sse.MinRetry || e.Retry > sse.MaxRetry) {
				t.Errorf("a retry time of %v", e.Retry)
			}
			if bytes.ContainsAny(e.Data, "\r") {
				t.Errorf("a line end is part of a line: %q", e.Data)
			}
		}
		again, errAgain := readAll(sse.NewReader(iotest.OneByteReader(bytes.NewReader(text)), limit))
		if !sameEvents(events, again) || err.Error() != errAgain.Error() {
			t.Errorf("byte by byte it is %v and %v, as a whole %v and %v", again, errAgain, events, err)
		}
	})
}

// One event that was written is read as that event and no other, or was refused.
func FuzzRoundTrip(f *testing.F) {
	f.Add("", "", []byte(""), int64(0))
	f.Add("1", "message", []byte("{}"), int64(0))
	f.Add("1\r\n2", "a\x00b", []byte("a\r\nb\rc\n\nd\n"), int64(1500))
	f.Add("\ufeff", " ", []byte("\n\ndata: x\n\n"), int64(-1))
	f.Add("", "", []byte("\r"), int64(1<<62))
	f.Fuzz(func(t *testing.T, id, name string, data []byte, ms int64) {
		retry := time.Duration(ms) * time.Millisecond
		written, err := sse.Append(nil, sse.Event{ID: id, Name: name, Data: data, Retry: retry})
		if err != nil {
			if !errors.As(err, new(*sse.FieldError)) || len(written) > 0 {
				t.Fatalf("refused with %v and %q", err, written)
			}
			return
		}
		if len(id) > sse.MaxField || len(name) > sse.MaxField {
			return // the other end's limits are its own
		}
		r := sse.NewReader(bytes.NewReader(written), len(data))
		events, err := readAll(r)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("%q: %v", written, err)
		}
		if retry > 0 {
			retry = min(max(retry, sse.MinRetry), sse.MaxRetry)
		}
		if r.LastID() != id || r.Retry() != retry {
			t.Errorf("%q: last id %q, retry %v", written, r.LastID(), r.Retry())
		}
		want := []sse.Event{{ID: id, Name: name, Data: normalised(data), Retry: retry}}
		if id == "" && name == "" && len(data) == 0 && retry > 0 {
			want = nil
		}
		if !sameEvents(events, want) {
			t.Errorf("%q: read %v, want %v", written, events, want)
		}
	})
}

// normalised is text with LF for each line end.
func normalised(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
}

// A comment is nothing to a reader.
func FuzzComment(f *testing.F) {
	f.Add("")
	f.Add("a\rdata: b\r\n\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		stream := sse.AppendComment(nil, text)
		stream, err := sse.Append(stream, message("after"))
		if err != nil {
			t.Fatal(err)
		}
		r := sse.NewReader(bytes.NewReader(stream), 100)
		events, err := readAll(r)
		if len(events) != 1 || string(events[0].Data) != "after" || !errors.Is(err, io.EOF) || r.LastID() != "" || r.Retry() != 0 {
			t.Errorf("%q: %v, %v", stream, events, err)
		}
	})
}
