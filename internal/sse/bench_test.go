package sse_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

var sizes = []int{100, 10_000, 1_000_000}

func eventOf(size int) sse.Event {
	return sse.Event{Name: "message", Data: []byte(`{"jsonrpc":"2.0","method":"note","params":["` + strings.Repeat("x", size) + `"]}`)}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := eventOf(size)
			buf := make([]byte, 0, size+1000)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = sse.Append(buf[:0], e)
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := sse.NewReader(repeated(b, eventOf(size)), 2*size+1000)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The time for a stream of line ends is linear.
func BenchmarkReaderLineEnds(b *testing.B) {
	text := bytes.Repeat([]byte("\r"), 1<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := sse.NewReader(bytes.NewReader(text), 100).Next(); err != io.EOF {
			b.Fatal(err)
		}
	}
}

func BenchmarkSend(b *testing.B) {
	s := sse.Start(&sink{header: http.Header{}}, time.Minute)
	e := eventOf(100)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Send(context.Background(), e); err != nil {
			b.Fatal(err)
		}
	}
}

// repeated is an event for ever.
func repeated(tb testing.TB, e sse.Event) io.Reader {
	text, err := sse.Append(nil, e)
	if err != nil {
		tb.Fatal(err)
	}
	return &loop{text: text}
}

type loop struct {
	text []byte
	at   int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.text[l.at:])
	l.at = (l.at + n) % len(l.text)
	return n, nil
}

func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	e := sse.Event{ID: "17", Name: "message", Data: eventOf(1000).Data, Retry: time.Second}
	buf := make([]byte, 0, 4096)
	s := sse.Start(&sink{header: http.Header{}}, time.Minute)
	plain := eventOf(1000)
	r := sse.NewReader(repeated(t, plain), 1<<20)
	big := sse.NewReader(repeated(t, eventOf(1_000_000)), 1<<21)
	for _, tt := range []struct {
		name   string
		budget float64
		do     func()
	}{
		{"Append", 0, func() { buf, _ = sse.Append(buf[:0], e) }},
		{"AppendComment", 0, func() { buf = sse.AppendComment(buf[:0], "still there") }},
		{"Send", 0, func() { _ = s.Send(context.Background(), plain) }},
		{"Beat", 0, func() { _ = s.SendComment() }},
		{"Next: the data alone", 1, func() { _, _ = r.Next() }},
		{"Next: nothing, if the data are taken back", 0, func() { e, _ := r.Next(); r.Recycle(e.Data) }},
		{"Next: doubling as a big event comes in", 6, func() { _, _ = big.Next() }},
	} {
		tt.do()
		if got := testing.AllocsPerRun(100, tt.do); got > tt.budget {
			t.Errorf("%s: %v allocations, at most %v are allowed", tt.name, got, tt.budget)
		}
	}
}
