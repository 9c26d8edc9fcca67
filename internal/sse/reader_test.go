package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// readers are the ways in which the same bytes may come.
var readers = map[string]func(io.Reader) io.Reader{
	"whole":          func(r io.Reader) io.Reader { return r },
	"byte by byte":   iotest.OneByteReader,
	"halves":         iotest.HalfReader,
	"end with bytes": iotest.DataErrReader,
	"empty reads":    func(r io.Reader) io.Reader { return &hesitant{r: iotest.OneByteReader(r)} },
}

// hesitant is a reader that returns no data on every other Read.
type hesitant struct {
	r    io.Reader
	turn bool
}

func (h *hesitant) Read(p []byte) (int, error) {
	h.turn = !h.turn
	if h.turn {
		return 0, nil
	}
	return h.r.Read(p)
}

// readAll returns all events and what ended them.
func readAll(r *sse.Reader) ([]sse.Event, error) {
	var events []sse.Event
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func message(data string) sse.Event { return sse.Event{Data: []byte(data)} }

// The examples of the standard and the cases of Web Platform Tests for eventsource.
var streams = []struct {
	name   string
	text   string
	want   []sse.Event
	lastID string
	retry  time.Duration
}{
	{name: "empty"},
	{name: "two lines of data", text: "data: YHOO\ndata: +2\ndata: 10\n\n", want: []sse.Event{message("YHOO\n+2\n10")}},
	{
		name: "comment, id, empty id, second space", text: ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
		want: []sse.Event{{ID: "1", Data: []byte("first event")}, message("second event"), message(" third event")},
	},
	{name: "empty data twice, and one cut off", text: "data\n\ndata\ndata\n\ndata:", want: []sse.Event{message(""), message("\n")}},
	{name: "space after the colon", text: "data:test\n\ndata: test\n\n", want: []sse.Event{message("test"), message("test")}},
	{name: "LF", text: "event: a\ndata: 1\n\n", want: []sse.Event{{Name: "a", Data: []byte("1")}}},
	{name: "CRLF", text: "event: a\r\ndata: 1\r\n\r\n", want: []sse.Event{{Name: "a", Data: []byte("1")}}},
	{name: "CR", text: "event: a\rdata: 1\r\r", want: []sse.Event{{Name: "a", Data: []byte("1")}}},
	{name: "all line ends", text: "data: 1\rdata: 2\ndata: 3\r\ndata: 4\n\r", want: []sse.Event{message("1\n2\n3\n4")}},
	{name: "CRLF is one end", text: "data: 1\r\ndata: 2\r\n\r\n", want: []sse.Event{message("1\n2")}},
	{name: "LF CR is two ends", text: "data: 1\n\rdata: 2\n\r", want: []sse.Event{message("1"), message("2")}},
	{name: "byte order mark", text: "\ufeffdata: 1\n\n", want: []sse.Event{message("1")}},
	{name: "second mark is part of a name", text: "\ufeff\ufeffdata: 1\n\ndata: 2\n\n", want: []sse.Event{message("2")}},
	{name: "mark in the middle", text: "data: 1\n\n\ufeffdata: 2\n\ndata: 3\n\n", want: []sse.Event{message("1"), message("3")}},
	{name: "part of a mark", text: "\xef\xbbdata: 1\n\ndata: 2\n\n", want: []sse.Event{message("2")}},
	{name: "names in exact case", text: "DATA: 1\nData: 2\ndata : 3\n data: 4\ndata: 5\n\n", want: []sse.Event{message("5")}},
	{name: "unknown fields", text: "foo: 1\ndat: 2\ndatab: 3\ndatabase\nevents: a\nx\ndata: 4\n\n", want: []sse.Event{message("4")}},
	{name: "tab and NUL are no line ends", text: "data:\ttest\x00\u2028\u0085\x0b\x0c.\n\n", want: []sse.Event{message("\ttest\x00\u2028\u0085\x0b\x0c.")}},
	{name: "not even UTF-8", text: "data: \xff\xfe\n\n", want: []sse.Event{message("\xff\xfe")}},
	{name: "colons in values", text: "event: a:b\ndata::\n\n", want: []sse.Event{{Name: "a:b", Data: []byte(":")}}},
	{name: "comments between", text: "data: 1\n:\n: data: 2\n:data: 3\ndata: 4\n\n", want: []sse.Event{message("1\n4")}},
	{name: "name without data", text: "event: a\n\ndata: 1\n\n", want: []sse.Event{message("1")}},
	{name: "last name counts", text: "event: a\nevent: b\ndata: 1\n\ndata: 2\n\n", want: []sse.Event{{Name: "b", Data: []byte("1")}, message("2")}},
	{name: "name taken back", text: "event: a\nevent:\ndata: 1\n\n", want: []sse.Event{message("1")}},
	{name: "blank lines", text: "\n\n\r\r\n\r\ndata: 1\n\n\n\n", want: []sse.Event{message("1")}},
	{name: "end without a blank line", text: "data: 1\n\ndata: 2\n", want: []sse.Event{message("1")}},
	{name: "end without a line end", text: "data: 1\n\ndata: 2", want: []sse.Event{message("1")}},

	{name: "id stays", text: "id: 1\ndata: a\n\ndata: b\n\n", want: []sse.Event{{ID: "1", Data: []byte("a")}, message("b")}, lastID: "1"},
	{name: "id without data", text: "id: 1\n\n", lastID: "1"},
	{name: "priming", text: "id: 1\ndata:\n\n", want: []sse.Event{{ID: "1"}}, lastID: "1"},
	{name: "id taken back", text: "id: 1\n\nid:\n\n"},
	{name: "id with NUL", text: "id: 1\n\nid: 2\x003\ndata: a\n\n", want: []sse.Event{message("a")}, lastID: "1"},
	{name: "id of an event cut off", text: "id: 1\n\nid: 2\ndata: a\n", lastID: "1"},
	{name: "id outlasts its event", text: "id: 1\ndata: a\n\nid: 2\n\n", want: []sse.Event{{ID: "1", Data: []byte("a")}}, lastID: "2"},

	{name: "retry", text: "retry: 500\n\n", retry: 500 * time.Millisecond},
	{name: "retry with an event", text: "retry:500\ndata: a\n\n", want: []sse.Event{{Retry: 500 * time.Millisecond, Data: []byte("a")}}, retry: 500 * time.Millisecond},
	{name: "retry of an event cut off", text: "retry: 500\n", retry: 500 * time.Millisecond},
	{name: "retry too short", text: "retry: 0\n\n", retry: sse.MinRetry},
	{name: "retry too long", text: "retry: 60001\n\n", retry: sse.MaxRetry},
	{name: "retry beyond all numbers", text: "retry: 184467440737095516160\n\n", retry: sse.MaxRetry},
	{name: "retry with zeros", text: "retry: 000000000000000000000700\n\n", retry: 700 * time.Millisecond},
	{name: "bogus retries", text: "retry: 500\nretry\nretry:\nretry: 5s\nretry: -1\nretry: +600\nretry: 6e2\nretry:  600\nretry: 600 \nretry: ٣\n\n", retry: 500 * time.Millisecond},
}

func TestReader(t *testing.T) {
	for _, s := range streams {
		for way, reader := range readers {
			t.Run(s.name+"/"+way, func(t *testing.T) {
				r := sse.NewReader(reader(strings.NewReader(s.text)), 1000)
				got, err := readAll(r)
				if !errors.Is(err, io.EOF) {
					t.Errorf("the stream ended with %v", err)
				}
				if !sameEvents(got, s.want) {
					t.Errorf("events differ:\n%s", cmp.Diff(s.want, got))
				}
				if r.LastID() != s.lastID || r.Retry() != s.retry {
					t.Errorf("last id %q, retry %v; want %q, %v", r.LastID(), r.Retry(), s.lastID, s.retry)
				}
			})
		}
	}
}

func sameEvents(a, b []sse.Event) bool { return slices.EqualFunc(a, b, sameEvent) }

func sameEvent(a, b sse.Event) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Retry == b.Retry && bytes.Equal(a.Data, b.Data)
}

// Wherever a stream is cut, exactly the complete events are returned.
func TestReaderTruncated(t *testing.T) {
	text := "\ufeffid: 1\r\nevent: a\r\ndata: zwölf\r\ndata: 2\r\n\r\n: comment\n\nretry: 700\rdata: 3\r\rid: 3\n\ndata:\n\n"
	var ends []int // of events
	for _, last := range []string{"data: 2\r\n\r", "data: 3\r\r", "data:\n\n"} {
		ends = append(ends, strings.Index(text, last)+len(last))
	}
	whole, _ := readAll(sse.NewReader(strings.NewReader(text), 100))
	if len(whole) != len(ends) {
		t.Fatalf("%d events, want %d", len(whole), len(ends))
	}
	for cut := range len(text) + 1 {
		complete := 0
		for complete < len(ends) && ends[complete] <= cut {
			complete++
		}
		got, err := readAll(sse.NewReader(strings.NewReader(text[:cut]), 100))
		if !errors.Is(err, io.EOF) || !sameEvents(got, whole[:complete]) {
			t.Errorf("cut after %q: %v and %v, want the first %d events and EOF", text[:cut], got, err, complete)
		}
	}
}

// An event is returned with its last byte, not with the first byte of the next one.
func TestReaderDoesNotWait(t *testing.T) {
	for _, text := range []string{"data: 1\n\n", "data: 1\r\r", "data: 1\r\n\r", "data\n\r", "data:\n\n", "\ufeffdata\r\r"} {
		r := sse.NewReader(io.MultiReader(strings.NewReader(text), noMore{t}), 100)
		if _, err := r.Next(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

type noMore struct{ t *testing.T }

func (r noMore) Read([]byte) (int, error) {
	r.t.Error("the reader waits for more than the event")
	return 0, io.EOF
}

// Lines of all lengths around the lengths of windows and buffers.
func TestReaderLineLengths(t *testing.T) {
	racetest.Skip(t)
	var lengths []int
	for _, around := range []int{0, 64, 192, 448, 4096, 8192, 65536, 131072} {
		for n := max(around-8, 0); n < around+8; n++ {
			lengths = append(lengths, n)
		}
	}
	var (
		text bytes.Buffer
		want []sse.Event
	)
	for _, n := range lengths {
		for _, end := range []string{"\n", "\r", "\r\n"} {
			line := strings.Repeat("x", n)
			fmt.Fprint(&text, ":", line, end, "data:", line, end, "-", line, end, "data: ", line, end, end)
			want = append(want, message(line+"\n"+line))
		}
	}
	got, err := readAll(sse.NewReader(&text, 1<<20))
	if !errors.Is(err, io.EOF) || !sameEvents(got, want) {
		t.Errorf("%d events and %v, want %d like those written", len(got), err, len(want))
	}
}

// A buffer may be full, and grow, anywhere in a line.
func TestReaderBufferGrows(t *testing.T) {
	for n := 4096 - 20; n < 4096; n++ {
		text := ":" + strings.Repeat("x", n) + "\r\ndata: y\r\n\r\n"
		got, err := readAll(sse.NewReader(strings.NewReader(text), 100))
		if want := []sse.Event{message("y")}; !errors.Is(err, io.EOF) || !sameEvents(got, want) {
			t.Errorf("after a comment of %d bytes: %v and %v", n, got, err)
		}
	}
}

// Next does not modify earlier events.
func TestReaderDataOwnership(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data: one\n\ndata: two\n\n"), 100)
	first, _ := r.Next()
	_ = append(first.Data, " and more"...)
	if second, _ := r.Next(); string(first.Data) != "one" || string(second.Data) != "two" {
		t.Errorf("data are %q and %q", first.Data, second.Data)
	}
}

func TestReaderLimits(t *testing.T) {
	const limit = 100
	fits := strings.Repeat("x", limit)
	field := strings.Repeat("x", sse.MaxField)
	for _, tt := range []struct {
		name, text, tooLong string
	}{
		{"data fit", "event: message\nid: 1\ndata: " + fits + "\n\n", ""},
		{"lines of data fit", "data: " + fits[:50] + "\ndata: " + fits[:49] + "\n\n", ""},
		{"fields fit", "id: " + field + "\nevent: " + field + "\nretry: " + strings.Repeat("1", sse.MaxField) + "\ndata: 1\n\n", ""},
		{"comments are free", ":" + strings.Repeat(fits, 10_000) + "\n" + strings.Repeat(":"+fits+"\n", 1000) + "data: " + fits + "\n\n", ""},
		{"unknown fields are free", strings.Repeat(field, 100) + ":" + field + "\ndata: " + fits + "\n\n", ""},
		{"data too long", "data: " + fits + "x\n\n", "data"},
		{"unfinished data too long", "data: " + fits + "x", "data"},
		{"lines of data too long", "data: " + fits[:50] + "\ndata: " + fits[:50] + "\n\n", "data"},
		{"too many empty lines of data", strings.Repeat("data\n", limit+2), "data"},
		{"id too long", "id: " + field + "x\n\n", "id"},
		{"name too long", "event: " + field + "x\n\n", "event"},
		{"retry too long", "retry: " + strings.Repeat("1", sse.MaxField+1) + "\n\n", "retry"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := sse.NewReader(strings.NewReader(tt.text), limit)
			events, err := readAll(r)
			if tt.tooLong == "" {
				if !errors.Is(err, io.EOF) || len(events) != 1 {
					t.Errorf("%d events and %v, want one and EOF", len(events), err)
				}
				return
			}
			tooLong, ok := errors.AsType[*sse.TooLongError](err)
			if !ok || len(events) != 0 || tooLong.Field != tt.tooLong {
				t.Fatalf("%d events and %v, want a TooLongError about %s", len(events), err, tt.tooLong)
			}
			if want := fmt.Sprintf("the %s of an event is longer than %d bytes", tooLong.Field, tooLong.Max); !strings.Contains(err.Error(), want) {
				t.Errorf("the error says %q, want %q", err, want)
			}
			if _, again := r.Next(); again != err {
				t.Errorf("the reader goes on with %v", again)
			}
		})
	}
}

// An event that is too long is refused as soon as the limit is exceeded.
func TestReaderLimitBoundsMemory(t *testing.T) {
	source := &counting{r: endless{}}
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: "), source), 1<<20)
	if _, err := readAll(r); !errors.As(err, new(*sse.TooLongError)) {
		t.Errorf("an endless event ended with %v", err)
	}
	if source.n > 2<<20 {
		t.Errorf("%d bytes were read of an event that may have 1 MiB", source.n)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func TestReaderSourceFails(t *testing.T) {
	broken := errors.New("broken")
	for _, text := range []string{"", "\xef", "data: 1\n\n", "data: 1\n\ndata: 2", "data: 1\n\ndata: 2\n", "data: 1\n\nd"} {
		r := sse.NewReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), 100)
		events, err := readAll(r)
		if err != broken || len(events) != strings.Count(text, "\n\n") {
			t.Errorf("%q: %d events and %v", text, len(events), err)
		}
		if _, err := r.Next(); err != broken {
			t.Errorf("%q: afterwards %v", text, err)
		}
	}
	r := sse.NewReader(stuck{}, 100)
	if _, err := r.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that returns no data: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// Recycled data is reused, for events with data and without.
func TestReaderRecycles(t *testing.T) {
	text := "data: first\n\nid: 1\n\ndata: a\ndata: b\n\ndata: third\n\ndata:\n\n"
	r := sse.NewReader(strings.NewReader(text), 100)
	var got []string
	for {
		e, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, string(e.Data))
		r.Recycle(e.Data)
	}
	if want := []string{"first", "a\nb", "third", ""}; !slices.Equal(got, want) || r.LastID() != "1" {
		t.Errorf("read %q and the id %q, want %q", got, r.LastID(), want)
	}
}

// The buffer of a large event is not kept for small ones.
func TestReaderRecycleLarge(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data: "+strings.Repeat("x", 1<<20)+"\n\ndata: small\n\n"), 2<<20)
	big, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	r.Recycle(big.Data)
	if small, err := r.Next(); err != nil || cap(small.Data) > 4<<10 {
		t.Errorf("a small event stands in %d bytes: %v", cap(small.Data), err)
	}
}

// reading is the result of reading a stream.
type reading struct {
	events []sse.Event
	lastID string
	retry  time.Duration
}

var (
	line   = regexp.MustCompile(`(?s)^(.*?)(\r\n|\r|\n)`)
	digits = regexp.MustCompile(`^[0-9]+$`)
)

// interpret is a simple second implementation of the parsing section of the standard.
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

// pieces are the parts of which the test composes streams, and parts that readers often handle wrongly.
var pieces = []string{
	"\n", "\r", "\r\n", "\n\n", "data", "data:", "data: ", "id", "id:", "id: ", "event", "event: ", "retry", "retry:", "retry: ",
	":", " ", "\x00", "\ufeff", "\xef\xbb", "x", "message", "7", "500", "99999999999999999999", "-1", "\u2028", "\t", "Data: ", "datum",
}

// piecewise returns a text in pieces of these sizes.
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

// A reader agrees with interpret on every stream, however it is split.
func TestReaderAgainstReference(t *testing.T) {
	racetest.Skip(t)
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

// Every stream ends with the same events however it is split, and these events can be
// encoded.
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

// An encoded event is decoded as the same event, or encoding it fails.
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

// A reader skips comments.
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

func TestMain(m *testing.M) { leaktest.Main(m) }
