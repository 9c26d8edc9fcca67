package sse_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// reading is what a stream gives.
type reading struct {
	events []sse.Event
	lastID string
	retry  time.Duration
}

var (
	line   = regexp.MustCompile(`(?s)^(.*?)(\r\n|\r|\n)`)
	digits = regexp.MustCompile(`^[0-9]+$`)
)

// interpret is a second implementation of the standard's section on parsing an
// event stream, a sentence a line and in no hurry.
func interpret(text string) (got reading) {
	text = strings.TrimPrefix(text, "\ufeff")
	var e sse.Event
	var data []string
	idBuffer := ""
	for {
		found := line.FindStringSubmatch(text)
		if found == nil {
			return got
		}
		text = text[len(found[0]):]
		name, value, _ := strings.Cut(found[1], ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case found[1] == "":
			got.lastID = idBuffer
			if data != nil {
				e.Data = []byte(strings.Join(data, "\n"))
				got.events = append(got.events, e)
			}
			e, data = sse.Event{}, nil
		case name == "event":
			e.Name = value
		case name == "data":
			data = append(data, value)
		case name == "id" && !strings.Contains(value, "\x00"):
			idBuffer, e.ID = value, value
		case name == "retry" && digits.MatchString(value):
			e.Retry = sse.MaxRetry
			if ms, err := strconv.Atoi(value); err == nil && ms < 60_000 {
				e.Retry = max(time.Duration(ms)*time.Millisecond, sse.MinRetry)
			}
			got.retry = e.Retry
		}
	}
}

// pieces are what streams are made of, and what readers stumble over.
var pieces = []string{
	"\n", "\r", "\r\n", "\n\n", "data", "data:", "data: ", "id", "id:", "id: ", "event", "event: ", "retry", "retry:", "retry: ",
	":", " ", "\x00", "\ufeff", "\xef\xbb", "x", "message", "7", "500", "99999999999999999999", "-1", "\u2028", "\t", "Data: ", "datum",
}

// piecewise gives a text in pieces of those sizes.
type piecewise struct {
	text  string
	sizes []byte
}

func (p *piecewise) Read(buf []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	size := len(p.text)
	if len(p.sizes) > 0 {
		size, p.sizes = min(size, int(p.sizes[0]%8)), p.sizes[1:]
	}
	n := copy(buf, p.text[:size])
	p.text = p.text[n:]
	return n, nil
}

func compare(t *testing.T, text string, sizes []byte) {
	t.Helper()
	r := sse.NewReader(&piecewise{text, sizes}, 1<<20)
	events, err := readAll(r)
	if errors.As(err, new(*sse.TooLongError)) {
		return // which the standard does not know
	}
	want := interpret(text)
	if !errors.Is(err, io.EOF) || !sameEvents(events, want.events) || r.LastID() != want.lastID || r.Retry() != want.retry {
		t.Errorf("%q in pieces of %v:\n got %+v, %q, %v and %v\nwant %+v", text, sizes, events, r.LastID(), r.Retry(), err, want)
	}
}

// A reader agrees with the standard on every stream, however it comes.
func TestReaderAgainstReference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		var text strings.Builder
		for range random.IntN(30) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		sizes := make([]byte, random.IntN(40))
		for i := range sizes {
			sizes[i] = byte(1 + random.IntN(7))
		}
		compare(t, text.String(), sizes)
	}
}

func FuzzReaderAgainstReference(f *testing.F) {
	for _, s := range streams {
		f.Add(s.text, []byte{1, 2, 3})
	}
	f.Add("id: 1\r\ndata\r\r\ndata: \ufeff\n\n", bytes.Repeat([]byte{1}, 40))
	f.Fuzz(func(t *testing.T, text string, sizes []byte) {
		if len(sizes) < 90 { // more empty reads in a row are an error
			compare(t, text, sizes)
		}
	})
}
