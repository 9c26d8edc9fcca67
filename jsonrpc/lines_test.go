package jsonrpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// nothing is a closer for streams whose ends need no closing.
type nothing struct{}

func (nothing) Close() error { return nil }

// frames reads a stream to its end: messages as they are, bad frames as their size.
func frames(stream jsonrpc.Stream) (list []string, end error) {
	for {
		frame, err := stream.Read()
		var bad *jsonrpc.FrameError
		switch {
		case err == nil:
			list = append(list, string(frame))
		case errors.As(err, &bad):
			list = append(list, fmt.Sprintf("bad frame of %d bytes", bad.Size))
		default:
			return list, err
		}
	}
}

func TestLinesRead(t *testing.T) {
	long := strings.Repeat("x", 100)
	huge := strings.Repeat("x", 200_000)
	tests := map[string]struct {
		input string
		want  []string
	}{
		"empty":               {"", nil},
		"one line":            {"{}\n", []string{"{}"}},
		"CRLF":                {"{}\r\n[]\r\n", []string{"{}", "[]"}},
		"blank lines":         {"\n\r\n \t\n{}\n\n", []string{"{}"}},
		"no last newline":     {"{}\n[]", []string{"{}", "[]"}},
		"blank at the end":    {"{}\n  ", []string{"{}"}},
		"surrounding space":   {" \t{} \r\n", []string{"{}"}},
		"other white space":   {"\v{}\u00a0\n", []string{"\v{}\u00a0"}},
		"CR alone":            {"{\r}\n", []string{"{\r}"}},
		"NUL":                 {"\x00\n", []string{"\x00"}},
		"as long as allowed":  {long + "\n" + long + "\r\n" + long, []string{long, long, long}},
		"too long":            {long + "x\n{}\n", []string{"bad frame of 101 bytes", "{}"}},
		"much too long":       {huge + "\n{}\n", []string{"bad frame of 200000 bytes", "{}"}},
		"too long, last":      {"{}\n" + long + "x", []string{"{}", "bad frame of 101 bytes"}},
		"much too long, last": {"{}\n" + huge, []string{"{}", "bad frame of 200000 bytes"}},
	}
	for name, test := range tests {
		readers := map[string]func(io.Reader) io.Reader{
			"whole":  func(r io.Reader) io.Reader { return r },
			"bytes":  iotest.OneByteReader,
			"halves": iotest.HalfReader, "data with EOF": iotest.DataErrReader,
		}
		for how, reader := range readers {
			t.Run(name+"/"+how, func(t *testing.T) {
				lines := jsonrpc.NewLines(reader(strings.NewReader(test.input)), io.Discard, nothing{}, &jsonrpc.LineOptions{MaxLine: 100})
				defer lines.Close()
				got, end := frames(lines)
				if fmt.Sprint(got) != fmt.Sprint(test.want) || end != io.EOF {
					t.Errorf("read %q and %v, want %q and EOF", got, end, test.want)
				}
			})
		}
	}
}

// A line ends only with its newline or with the input: half of one that was cut
// off by an error is not delivered.
func TestLinesReadFails(t *testing.T) {
	broken := errors.New("broken")
	input := io.MultiReader(strings.NewReader("{}\n{\"half\":"), iotest.ErrReader(broken))
	lines := jsonrpc.NewLines(input, io.Discard, nothing{}, nil)
	defer lines.Close()
	got, end := frames(lines)
	if len(got) != 1 || got[0] != "{}" || !errors.Is(end, broken) {
		t.Errorf("read %q and %v, want {} and the error", got, end)
	}
}

// A line that is too long costs no memory.
func TestLinesMemory(t *testing.T) {
	const limit, size = 1 << 20, 256 << 20
	input := io.MultiReader(io.LimitReader(zeros{}, size), strings.NewReader("\n{}\n"))
	lines := jsonrpc.NewLines(input, io.Discard, nothing{}, &jsonrpc.LineOptions{MaxLine: limit})
	defer lines.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, _ := frames(lines)
	runtime.ReadMemStats(&after)
	if len(got) != 2 || got[1] != "{}" {
		t.Errorf("read %q", got)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8*limit {
		t.Errorf("%d bytes were allocated for a line of %d with a limit of %d", allocated, size, limit)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Each frame is read as it was written, wherever the transport cuts it.
func TestLinesSplitAnywhere(t *testing.T) {
	requests := call(1, "echo", `{"text":"a\u00e9\ud83d\ude00é😀"}`) + "\r\n" + note("n", "") + "\n" + call(`"\u0031"`, "echo", `[1]`) + "\n"
	want := result(1, `{"text":"a\u00e9\ud83d\ude00é😀"}`) + "\n" + result(`"\u0031"`, `[1]`) + "\n"
	h := preempter{handler: handler{handle: echo}, methods: []string{"echo"}} // answers in order
	for cut := range len(requests) {
		var out bytes.Buffer
		input := io.MultiReader(strings.NewReader(requests[:cut]), strings.NewReader(requests[cut:]))
		if err := conn(jsonrpc.NewLines(input, &out, nothing{}, nil), h, nil).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("cut at %d: answered\n%swant\n%s", cut, out.String(), want)
		}
	}
}

// Whatever else stands on lines of their own, requests beside it are answered.
func TestLinesNoise(t *testing.T) {
	input := strings.Join([]string{
		"Welcome to server 1.0!", "", "\ufeff" + call(1, "echo", `[1]`), call(2, "echo", `[2]`), "\x1b[32mgreen\x1b[0m",
		call(3, "echo", `[3]`) + call(4, "echo", `[4]`), "\xff\xfe", strings.Repeat("[", 2000), strings.Repeat("y", 5000),
		call(5, "echo", `[5]`) + "\r", "null", call(6, "echo", `[6]`),
	}, "\n")
	for _, skip := range []bool{true, false} {
		var out bytes.Buffer
		c := conn(jsonrpc.NewLines(strings.NewReader(input), &out, nothing{}, &jsonrpc.LineOptions{MaxLine: 4096}),
			preempter{handler: handler{handle: echo}, methods: []string{"echo"}}, &jsonrpc.Options{SkipMalformed: skip})
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var answered string
		refused := 0
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, `"error"`) {
				refused++
			} else {
				answered += line
			}
		}
		if want := result(2, `[2]`) + "\n" + result(5, `[5]`) + "\n" + result(6, `[6]`) + "\n"; answered != want {
			t.Errorf("answered\n%swant\n%s", answered, want)
		}
		if c.Malformed() != 8 || !skip && refused != 8 || skip && refused != 0 {
			t.Errorf("skip %t: %d were counted and %d answered, want 8", skip, c.Malformed(), refused)
		}
	}
}

// One message is one line, and messages written at once do not mix.
func TestLinesWrite(t *testing.T) {
	var out bytes.Buffer
	lines := jsonrpc.NewLines(strings.NewReader(""), &out, nothing{}, nil)
	var writers sync.WaitGroup
	message := "{\n  \"a\":\r\n\"b\\n\"\n}"
	for range 50 {
		writers.Go(func() {
			if err := lines.Write(t.Context(), []byte(message)); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if err := lines.Close(); err != nil {
		t.Error(err)
	}
	want := strings.NewReplacer("\n", " ", "\r", " ").Replace(message) + "\n"
	if out.String() != strings.Repeat(want, 50) {
		t.Errorf("written\n%swant 50 times\n%s", out.String(), want)
	}
	if err := lines.Write(t.Context(), []byte("{}")); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("writing after Close: %v, want ErrClosed", err)
	}
	if err := lines.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// A peer that does not read makes writers wait, as long as they will, and cannot
// hold up Close.
func TestLinesSlowReader(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r, w := io.Pipe()
		lines := jsonrpc.NewLines(strings.NewReader(""), w, w, &jsonrpc.LineOptions{MaxQueued: 100})
		message := []byte(`"` + strings.Repeat("x", 60) + `"`)
		for i := range 3 { // one is being written, two wait
			if err := lines.Write(t.Context(), message); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := lines.Write(ctx, message); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a full queue: %v, want the deadline", err)
		}

		waiting := make(chan error)
		go func() { waiting <- lines.Write(t.Context(), message) }()
		synctest.Wait()
		buf := make([]byte, 64)
		if _, err := io.ReadFull(r, buf[:63]); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; err != nil {
			t.Errorf("once there is room: %v", err)
		}

		go func() { waiting <- lines.Write(t.Context(), message) }()
		start := time.Now()
		if err := lines.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v, want the second that it has for what is queued", took)
		}
		if err := <-waiting; !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the writer that waited got %v, want ErrClosed", err)
		}
	})
}

// Whoever waits for room learns that writing has failed.
func TestLinesWriteFailsWhileFull(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r, w := io.Pipe()
		lines := jsonrpc.NewLines(strings.NewReader(""), w, w, &jsonrpc.LineOptions{MaxQueued: 1})
		defer lines.Close()
		for range 2 { // one is being written, one is queued
			if err := lines.Write(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		waiting := make(chan error)
		go func() { waiting <- lines.Write(t.Context(), []byte("{}")) }()
		synctest.Wait()
		broken := errors.New("broken")
		r.CloseWithError(broken)
		if err := <-waiting; !errors.Is(err, broken) {
			t.Errorf("the writer that waited got %v, want why writing failed", err)
		}
	})
}

// When the peer does not take messages any more, the connection ends, but what the
// peer had sent is still read.
func TestLinesWriteFails(t *testing.T) {
	virtual(t, func(t *testing.T) {
		toUs, peerOut := io.Pipe()
		peerIn, fromUs := io.Pipe()
		lines := jsonrpc.NewLines(toUs, fromUs, toUs, nil)
		c := conn(lines, handler{}, nil)
		ran := make(chan error)
		go func() { ran <- c.Run(t.Context()) }()

		answered := make(chan error)
		go func() {
			_, err := c.Call(t.Context(), "m", nil)
			answered <- err
		}()
		if _, err := io.ReadFull(peerIn, make([]byte, len(call(1, "m", "")+"\n"))); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		peerIn.CloseWithError(broken)
		if err := c.Notify(t.Context(), "n", nil); err != nil {
			t.Errorf("the first write after the break is queued: %v", err)
		}
		synctest.Wait()
		wantFailure(t, c.Notify(t.Context(), "n", nil), jsonrpc.NotSent, broken)
		if _, err := io.WriteString(peerOut, result(1, `{}`)+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Errorf("the answer that was on its way: %v", err)
		}
		if err := <-ran; !errors.Is(err, broken) {
			t.Errorf("Run returned %v, want why writing failed", err)
		}
	})
}

// At the end of input what was read is answered, and the answers are written
// before the end.
func TestLinesDrain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var out bytes.Buffer
		input := call(1, "slow", `[1]`) + "\n" + call(2, "echo", `[2]`)
		c := conn(jsonrpc.NewLines(strings.NewReader(input), &out, nothing{}, nil), handler{handle: slow}, &jsonrpc.Options{Drain: time.Hour})
		if err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if want := result(2, `[2]`) + "\n" + result(1, `[1]`) + "\n"; out.String() != want {
			t.Errorf("answered\n%swant\n%s", out.String(), want)
		}
	})
}

// A doorman is a writer that says when a write begins, and waits until it may end.
type doorman struct{ begun, let chan struct{} }

func (d doorman) Write(p []byte) (int, error) {
	d.begun <- struct{}{}
	<-d.let
	return len(p), nil
}

func (doorman) Close() error { return nil }

// The memory in which a storm has waited serves the next one.
func TestLinesQueueAgain(t *testing.T) {
	if raced {
		t.Skip("the race detector drops what is pooled")
	}
	d := doorman{make(chan struct{}), make(chan struct{})}
	lines := jsonrpc.NewLines(strings.NewReader(""), d, d, nil)
	msg := bytes.Repeat([]byte("1"), 1<<10)
	storm := func() {
		for i := range 200 {
			if err := lines.Write(context.Background(), msg); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				<-d.begun // the rest waits meanwhile
			}
		}
		d.let <- struct{}{}
		<-d.begun
		d.let <- struct{}{}
	}
	storm()
	const storms = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range storms {
		storm()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / storms; each > 100<<10 {
		t.Errorf("a storm of 200 KiB allocates %d bytes", each)
	}
	if err := lines.Close(); err != nil {
		t.Error(err)
	}
}
