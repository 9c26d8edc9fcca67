package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// readers are the ways in which the same bytes may come.
var readers = map[string]func(io.Reader) io.Reader{
	"whole":          func(r io.Reader) io.Reader { return r },
	"byte by byte":   iotest.OneByteReader,
	"halves":         iotest.HalfReader,
	"end with bytes": iotest.DataErrReader,
	"empty reads":    func(r io.Reader) io.Reader { return &hesitant{r: iotest.OneByteReader(r)} },
}

// hesitant reads nothing every other time.
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

// The cases of the standard's examples, and what Web Platform Tests ask of
// eventsource, in our own words.
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

// Wherever a stream is cut, what was complete is there and nothing else is.
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

// An event is there with the byte that ends it, and not only with the next one:
// that may take hours.
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

// Lines of all lengths around those of windows and buffers.
func TestReaderLineLengths(t *testing.T) {
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

// What Next has returned stays what it was.
func TestReaderDataAreTheCallers(t *testing.T) {
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
			if want := fmt.Sprintf("the %s of an event may have at most %d bytes", tooLong.Field, tooLong.Max); !strings.Contains(err.Error(), want) {
				t.Errorf("the error says %q, want %q", err, want)
			}
			if _, again := r.Next(); again != err {
				t.Errorf("the reader goes on with %v", again)
			}
		})
	}
}

// An event much too long is refused when it is too long, whatever would follow.
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
		t.Errorf("a source that gives nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// Data that have been taken back serve again, for events with data and without.
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

// What one big event has needed is not kept for small ones.
func TestReaderRecyclesNothingBig(t *testing.T) {
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
