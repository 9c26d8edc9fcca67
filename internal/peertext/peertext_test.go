package peertext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// checkPlain checks all functions with one text.
func checkPlain(t *testing.T, text string) {
	t.Helper()
	testsuites.WantPlain(t, Escape(text))
	testsuites.WantPlain(t, Quote(text))
	testsuites.WantPlain(t, Cut(Escape(text), 50))
	if lines := EscapeLines(text); strings.Count(lines, "\n") != strings.Count(text, "\n") || EscapeLines(lines) != lines {
		t.Errorf("%q became %q", text, lines)
	}
	testsuites.WantPlainLines(t, EscapeLines(text))
	for _, line := range Wrap(Escape(text), 20) {
		testsuites.WantPlain(t, line)
		if len([]rune(line)) > 20 {
			t.Errorf("%q is longer than 20 columns", line)
		}
	}
	var out bytes.Buffer
	w := NewWriter(&out, text, nil)
	fmt.Fprintf(w, "%s\n%s", text, text)
	w.Close()
	testsuites.WantPlainLines(t, out.String())
	prefix := Escape(Cut(text, maxName)) + ": "
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, prefix) || !strings.HasSuffix(line, "\n") {
			t.Errorf("a line is %q, want it to begin with %q", line, prefix)
		}
	}
	out.Reset()
	if n, err := Screen(&out).Write([]byte(text)); n != len(text) || err != nil || out.String() != EscapeLines(text) {
		t.Errorf("Screen has written %q: %d %v", &out, n, err)
	}
	if utf8.ValidString(text) {
		var back string
		if err := json.Unmarshal([]byte(Quote(text)), &back); err != nil || back != text {
			t.Errorf("%q is quoted as %s, which is %q (%v)", text, Quote(text), back, err)
		}
	}
}

// All functions return visible characters only, for every text.
func TestNothingIsInvisible(t *testing.T) {
	for _, text := range testsuites.HostileText(t) {
		checkPlain(t, text)
	}
	group := make([]rune, 64)
	for first := rune(0); first <= unicode.MaxRune; first += rune(len(group)) {
		if racetest.Enabled && first > 0x4000 {
			break // slow
		}
		for i := range group {
			group[i] = first + rune(i)
		}
		testsuites.WantPlain(t, Escape(string(group)))
	}
}

func FuzzPlain(f *testing.F) {
	for _, text := range testsuites.HostileText(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkPlain(t, text)
		if json.Valid([]byte(text)) && utf8.ValidString(text) {
			for _, shown := range []string{EscapeJSON([]byte(text)), EscapeLines(text)} {
				var want, got any
				if json.Unmarshal([]byte(text), &want) == nil && (json.Unmarshal([]byte(shown), &got) != nil || !reflect.DeepEqual(got, want)) {
					t.Errorf("%q is shown as %q", text, shown)
				}
			}
		}
	})
}

// fakeClock is a clock that a test sets.
type fakeClock struct{ at time.Time }

func (c *fakeClock) now() time.Time { return c.at }

func TestWriterLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for name, test := range map[string]struct {
		pieces []string
		want   string
	}{
		"lines":             {[]string{"one\ntwo\n"}, "srv: one\nsrv: two\n"},
		"pieces":            {[]string{"o", "ne", "\nt", "wo\n"}, "srv: one\nsrv: two\n"},
		"a last part":       {[]string{"one\ntwo"}, "srv: one\nsrv: two\n"},
		"line breaks":       {[]string{"one\r", "\ntwo\r\n\n\nthree\rfour"}, "srv: one\nsrv: two\nsrv: three\nsrv: four\n"},
		"nothing":           {[]string{"", "\n\r\n"}, ""},
		"escapes":           {[]string{"\x1b[2J\x1b]52;c;eA==\x07\u202e\u009b\x9b"}, `srv: \u001b[2J\u001b]52;c;eA==\u0007\u202e\u009b\ufffd` + "\n"},
		"tabs":              {[]string{"\tat C:\\main"}, "srv:     at C:\\main\n"},
		"longest":           {[]string{long + "\n"}, "srv: " + long + "\n"},
		"too long":          {[]string{long, "yy", "y\nz\n"}, "srv: " + long + "… 3 bytes more\nsrv: z\n"},
		"cut in character":  {[]string{long[1:] + "é\n"}, "srv: " + long[1:] + `\ufffd… 1 bytes more` + "\n"},
		"a split character": {[]string{"\xc3", "\xa9\n"}, "srv: é\n"},
	} {
		var out bytes.Buffer
		w := NewWriter(&out, "srv", nil)
		for _, piece := range test.pieces {
			if n, err := io.WriteString(w, piece); n != len(piece) || err != nil {
				t.Errorf("%s: %d %v", name, n, err)
			}
		}
		w.Close()
		if out.String() != test.want {
			t.Errorf("%s: %q, want %q", name, &out, test.want)
		}
	}
}

// A flood is suppressed and counted, and the output is bounded whatever its size.
func TestWriterLimitsTheRate(t *testing.T) {
	clock := &fakeClock{time.Unix(1000, 0)}
	var out bytes.Buffer
	w := newWriter(&out, "srv", nil, clock.now)
	const flood = 50_000
	line := strings.Repeat("x", 99) + "\n"
	for range flood {
		io.WriteString(w, line)
	}
	if got := strings.Count(out.String(), "\n"); got != BurstLines {
		t.Errorf("%d lines, want %d", got, BurstLines)
	}
	out.Reset()
	clock.at = clock.at.Add(time.Second)
	io.WriteString(w, "next\n")
	if want := "srv: … 49,000 more lines (4.9 MB) suppressed\nsrv: next\n"; out.String() != want {
		t.Errorf("after a pause: %q, want %q", &out, want)
	}
	out.Reset()
	const seconds = 60
	for range seconds * 1000 { // a thousand lines per second
		clock.at = clock.at.Add(time.Millisecond)
		io.WriteString(w, line)
	}
	if lines := strings.Count(out.String(), "\n"); lines < seconds*LinesPerSecond/2 || lines > seconds*(LinesPerSecond+1) {
		t.Errorf("%d lines in %d seconds", lines, seconds)
	}
	if reports := strings.Count(out.String(), "suppressed"); reports > seconds*2 {
		t.Errorf("%d reports in %d seconds", reports, seconds)
	}
	out.Reset()
	w.Close()
	if !strings.Contains(out.String(), "suppressed") {
		t.Errorf("Close has written %q", &out)
	}
}

// Two gigabytes of any shape become a bounded output, in bounded memory.
func TestWriterBoundsBytes(t *testing.T) {
	for name, piece := range map[string]string{
		"lines":     strings.Repeat(strings.Repeat("x", 1023)+"\n", 64),
		"one line":  strings.Repeat("x", 64<<10),
		"escapes":   strings.Repeat(strings.Repeat("\x1b", 1023)+"\n", 64),
		"breaks":    strings.Repeat("\n", 64<<10),
		"one-liner": strings.Repeat("x\n", 32<<10),
	} {
		clock := &fakeClock{time.Unix(1000, 0)}
		var out bytes.Buffer
		w := newWriter(&out, "srv", nil, clock.now)
		for range 50 {
			io.WriteString(w, piece)
		}
		w.Close()
		if out.Len() > BurstBytes+16*MaxLine || cap(w.line) > 2*MaxLine {
			t.Errorf("%s: %d bytes of output, a buffer of %d", name, out.Len(), cap(w.line))
		}
		t.Logf("%s: %d bytes, of %d", name, out.Len(), 50*len(piece))
	}
}

// Concurrent writes and several writers to one output leave lines whole.
func TestWriterConcurrently(t *testing.T) {
	out := &lockedBuffer{}
	first, second := NewWriter(out, "a", nil), NewWriter(out, "b", nil)
	var all sync.WaitGroup
	for range 4 {
		for _, w := range []*Writer{first, second} {
			all.Go(func() {
				for range 50 {
					io.WriteString(w, "line\n")
				}
			})
		}
	}
	all.Wait()
	if a, b := strings.Count(out.String(), "a: line\n"), strings.Count(out.String(), "b: line\n"); a != 200 || b != 200 {
		t.Errorf("%d and %d lines", a, b)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// A broken output does not stop the peer, and Close does not wait for one that blocks.
func TestWriterWithBrokenOutput(t *testing.T) {
	r, out := io.Pipe()
	w := NewWriter(out, "srv", nil)
	blocked := make(chan struct{})
	go func() {
		io.WriteString(w, "one\n")
		close(blocked)
	}()
	if _, err := r.Read(make([]byte, 1)); err != nil { // Write holds the lock from its first byte on
		t.Error(err)
	}
	w.Close()
	r.CloseWithError(errors.New("closed"))
	<-blocked
	if n, err := io.WriteString(w, "two\n"); n != 4 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  {},
		"short":                             {"short"},
		"0123456789abc":                     {"0123456789", "abc"},
		"日本語日本語":                            {"日本語日本", "語"},
		"a" + strings.Repeat(" ", 12) + "b": {"a", `\{12 spaces}`, "b"},
		"a        b":                        {"a        b"},
	} {
		if got := Wrap(text, 10); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%q is wrapped as %q, want %q", text, got, want)
		}
	}
}

// Secrets are replaced wherever they are in a line, also where the line is cut.
func TestWriterRedacts(t *testing.T) {
	const secret, longer, pem = "s3cret-token", "s3cret-token-and-more", "-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----\n"
	secrets := NewRedactor("short", secret, longer, pem, "")
	for at := range 3 * MaxLine {
		for _, text := range []string{secret, longer} {
			var out bytes.Buffer
			w := NewWriter(&out, "srv", secrets)
			line := strings.Repeat("x", at) + text + strings.Repeat("y", 50)
			for piece := range strings.SplitAfterSeq(line, "-") {
				io.WriteString(w, piece)
			}
			w.Close()
			if strings.Contains(out.String(), "s3c") || strings.Contains(out.String(), "more") && !strings.Contains(out.String(), "bytes more") && !strings.Contains(out.String(), "kB more") {
				t.Fatalf("at %d: %q", at, &out)
			}
		}
	}
	if got := secrets.Redact("short MIIEvQIBADAN s3cret-token-and-more."); got != "short [redacted] [redacted]." {
		t.Errorf("%q", got)
	}
	if none := NewRedactor("short", ""); none != nil || none.Redact("short") != "short" {
		t.Errorf("a redactor without secrets: %v", none)
	}
}

// Each Write to a screen is one Write to its output, which has no lock.
func TestScreenConcurrently(t *testing.T) {
	const n = 200
	var out bytes.Buffer
	w := Screen(&out)
	write := func(text string) func(int) {
		return func(int) {
			if _, err := io.WriteString(w, text); err != nil {
				t.Error(err)
			}
		}
	}
	racetest.Together(n, write("first\n"), write("second\n"))
	if a, b := strings.Count(out.String(), "first\n"), strings.Count(out.String(), "second\n"); a != n || b != n {
		t.Errorf("%d and %d lines, want %d of both", a, b, n)
	}
}
