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

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

var noClose = io.NopCloser(nil)

// frames reads a stream to its end. It returns the messages, and the reasons of refused frames.
func frames(stream jsonrpc.Stream) (list []string, end error) {
	for {
		frame, err := stream.Read()
		var bad *jsonrpc.DecodeError
		switch {
		case err == nil:
			list = append(list, string(frame))
		case errors.As(err, &bad):
			list = append(list, "refused: "+bad.Err.Message)
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
		"too long":            {long + "x\n{}\n", []string{"refused: a line may have at most 100 bytes", "{}"}},
		"much too long":       {huge + "\n{}\n", []string{"refused: a line may have at most 100 bytes", "{}"}},
		"too long, last":      {"{}\n" + long + "x", []string{"{}", "refused: a line may have at most 100 bytes"}},
		"much too long, last": {"{}\n" + huge, []string{"{}", "refused: a line may have at most 100 bytes"}},
	}
	for name, test := range tests {
		readers := map[string]func(io.Reader) io.Reader{
			"whole":  func(r io.Reader) io.Reader { return r },
			"bytes":  iotest.OneByteReader,
			"halves": iotest.HalfReader, "data with EOF": iotest.DataErrReader,
		}
		for how, reader := range readers {
			t.Run(name+"/"+how, func(t *testing.T) {
				lines := jsonrpc.NewLines(reader(strings.NewReader(test.input)), io.Discard, noClose, 100)
				defer lines.Close()
				got, end := frames(lines)
				if fmt.Sprint(got) != fmt.Sprint(test.want) || end != io.EOF {
					t.Errorf("read %q and %v, want %q and EOF", got, end, test.want)
				}
			})
		}
	}
}

// Read does not return an incomplete line before an error.
func TestLinesReadFails(t *testing.T) {
	broken := errors.New("broken")
	input := io.MultiReader(strings.NewReader("{}\n{\"half\":"), iotest.ErrReader(broken))
	lines := jsonrpc.NewLines(input, io.Discard, noClose, 0)
	defer lines.Close()
	got, end := frames(lines)
	if len(got) != 1 || got[0] != "{}" || !errors.Is(end, broken) {
		t.Errorf("read %q and %v, want {} and the error", got, end)
	}
}

// Skipping a line that is too long takes little memory.
func TestLinesMemory(t *testing.T) {
	const limit, size = 1 << 20, 256 << 20
	input := io.MultiReader(io.LimitReader(zeros{}, size), strings.NewReader("\n{}\n"))
	lines := jsonrpc.NewLines(input, io.Discard, noClose, limit)
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

// Frames are read correctly in pieces of any size.
func TestLinesSplitAnywhere(t *testing.T) {
	requests := call(1, "echo", `{"text":"a\u00e9\ud83d\ude00é😀"}`) + "\r\n" + note("n", "") + "\n" + call(`"\u0031"`, "echo", `[1]`) + "\n"
	want := result(1, `{"text":"a\u00e9\ud83d\ude00é😀"}`) + "\n" + result(`"\u0031"`, `[1]`) + "\n"
	h := session{handler: handler{handle: echo}, preempts: []string{"echo"}} // answers in order
	for cut := range len(requests) {
		var out bytes.Buffer
		input := io.MultiReader(strings.NewReader(requests[:cut]), strings.NewReader(requests[cut:]))
		if err := newConn(jsonrpc.NewLines(input, &out, noClose, 0), h, nil).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("cut at %d: answered\n%swant\n%s", cut, out.String(), want)
		}
	}
}

// Malformed lines do not affect the requests on other lines.
func TestLinesMalformed(t *testing.T) {
	input := strings.Join([]string{
		"Welcome to server 1.0!", "", "\ufeff", "\ufeff" + call(1, "echo", `[1]`), call(2, "echo", `[2]`), "\x1b[32mgreen\x1b[0m",
		call(3, "echo", `[3]`) + call(4, "echo", `[4]`), "\xff\xfe", strings.Repeat("[", 2000), strings.Repeat("y", 5000),
		call(5, "echo", `[5]`) + "\r", "null", call(6, "echo", `[6]`),
	}, "\n")
	for _, skip := range []bool{true, false} {
		var out bytes.Buffer
		var reports reports
		c := newConn(jsonrpc.NewLines(strings.NewReader(input), &out, noClose, 4096),
			session{handler: handler{handle: echo}, preempts: []string{"echo"}},
			&jsonrpc.Options{SkipMalformed: skip, Malformed: reports.add})
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
		if want := result(1, `[1]`) + "\n" + result(2, `[2]`) + "\n" + result(5, `[5]`) + "\n" + result(6, `[6]`) + "\n"; answered != want {
			t.Errorf("answered\n%swant\n%s", answered, want)
		}
		if len(reports) != 7 || !skip && refused != 7 || skip && refused != 0 {
			t.Errorf("skip %t: %d were reported and %d answered, want 7", skip, len(reports), refused)
		}
	}
}

// Each message becomes one line, even if goroutines write at the same time.
func TestLinesWrite(t *testing.T) {
	var out bytes.Buffer
	lines := jsonrpc.NewLines(strings.NewReader(""), &out, noClose, 0)
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

// If the peer does not read, Write blocks until its context ends, and Close returns in time.
func TestLinesSlowReader(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r, w := io.Pipe()
		lines := jsonrpc.NewLines(strings.NewReader(""), w, w, 0)
		message := []byte(strings.Repeat("x", 600<<10)) // two of them fill the queue
		for i := range 3 {                              // one is being written, two wait
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
		if _, err := io.CopyN(io.Discard, r, int64(len(message)+1)); err != nil {
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
			t.Errorf("Close took %v, want the 1 s limit", took)
		}
		if err := <-waiting; !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the writer that waited got %v, want ErrClosed", err)
		}
	})
}

// A blocked Write returns the error of the failed write.
func TestLinesWriteFailsWhileFull(t *testing.T) {
	virtual(t, func(t *testing.T) {
		r, w := io.Pipe()
		lines := jsonrpc.NewLines(strings.NewReader(""), w, w, 0)
		defer lines.Close()
		message := make([]byte, 1<<20)
		for range 2 { // one is being written, one fills the queue
			if err := lines.Write(t.Context(), message); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		waiting := make(chan error)
		go func() { waiting <- lines.Write(t.Context(), message) }()
		synctest.Wait()
		broken := errors.New("broken")
		r.CloseWithError(broken)
		if err := <-waiting; !errors.Is(err, broken) {
			t.Errorf("the writer that waited got %v, want the error of the writer", err)
		}
	})
}

// When writing fails, the connection reads messages that the peer has already sent and then
// ends.
func TestLinesWriteFails(t *testing.T) {
	virtual(t, func(t *testing.T) {
		toUs, peerOut := io.Pipe()
		peerIn, fromUs := io.Pipe()
		lines := jsonrpc.NewLines(toUs, fromUs, toUs, 0)
		c := newConn(lines, handler{}, nil)
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
			t.Errorf("the response that was already sent: %v", err)
		}
		if err := <-ran; !errors.Is(err, broken) {
			t.Errorf("Run returned %v, want the error of the writer", err)
		}
	})
}

// Run writes the replies to all calls before it returns at the end of the input.
func TestLinesDrain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var out bytes.Buffer
		input := call(1, "slow", `[1]`) + "\n" + call(2, "echo", `[2]`)
		c := newConn(jsonrpc.NewLines(strings.NewReader(input), &out, noClose, 0), handler{handle: slow}, &jsonrpc.Options{Drain: time.Hour})
		if err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if want := result(2, `[2]`) + "\n" + result(1, `[1]`) + "\n"; out.String() != want {
			t.Errorf("answered\n%swant\n%s", out.String(), want)
		}
	})
}

// A blockingWriter sends to begun when a write begins, and returns after receiving from release.
type blockingWriter struct{ begun, release chan struct{} }

func (w blockingWriter) Write(p []byte) (int, error) {
	w.begun <- struct{}{}
	<-w.release
	return len(p), nil
}

// The memory of a long queue is reused.
func TestLinesReuseQueue(t *testing.T) {
	racetest.Skip(t)
	w := blockingWriter{make(chan struct{}), make(chan struct{})}
	lines := jsonrpc.NewLines(strings.NewReader(""), w, noClose, 0)
	msg := bytes.Repeat([]byte("1"), 1<<10)
	writeMany := func() {
		for i := range 200 {
			if err := lines.Write(context.Background(), msg); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				<-w.begun // the other messages are queued
			}
		}
		w.release <- struct{}{}
		<-w.begun
		w.release <- struct{}{}
	}
	writeMany()
	const rounds = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		writeMany()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 100<<10 {
		t.Errorf("a queue of 200 KiB allocates %d bytes", each)
	}
	if err := lines.Close(); err != nil {
		t.Error(err)
	}
}

// The connection reads any input to its end. Each call and each malformed line gets one
// response, and other lines get none.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{}\n", call(1, "m", "") + "\n", call(1, "m", "") + call(1, "m", ""), "[]\n[" + call(1, "m", `[1]`) + "]",
		"Hello\r\n" + call(`"a"`, "m", `{"a":1}`) + "\r\n" + note("n", "") + "\n" + result(1, "{}") + "\n",
		"\ufeff" + call(1, "m", ""), strings.Repeat("[", 1001), strings.Repeat("x", 600) + "\n" + call(2, "m", ""),
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}` + "\n" + `{"jsonrpc":"1.0","id":1,"result":{}}`,
		`{"` + strings.Repeat(".", 600) + `":0,"id":1,"method":"m"}` + "\n", `{"id":1,"` + strings.Repeat(".", 600) + `":0,"method":"m"}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}",
	} {
		f.Add([]byte(seed))
	}
	const maxLine = 512
	f.Fuzz(func(t *testing.T, input []byte) {
		var out bytes.Buffer
		lines := jsonrpc.NewLines(bytes.NewReader(input), &out, noClose, maxLine)
		h := handler{} // refuses every call
		if err := newConn(lines, h, nil).Run(t.Context()); err != nil {
			t.Fatalf("Run returned %v", err)
		}
		want, tooLong := map[string]int{}, 0
		for line := range bytes.Lines(input) {
			if len(bytes.TrimRight(line, "\r\n")) > maxLine {
				tooLong++
			} else if key, answered := answerTo(line); answered {
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
		more := 0 // to lines that are too long: at most one each, with its id if that could be read
		for id, n := range want {
			if got[id] < n {
				t.Errorf("%d answers to id %q, want %d", got[id], id, n)
			}
		}
		for id, n := range got {
			more += n - want[id]
		}
		if more > tooLong {
			t.Errorf("%d answers to %d lines that are too long", more, tooLong)
		}
	})
}

// answerTo returns the id of the expected response to a line that is not too long. answered is false if there
// must be none.
func answerTo(line []byte) (id string, answered bool) {
	line = bytes.Trim(line, " \t\r\n")
	if len(line) == 0 {
		return "", false
	}
	if line[0] == '[' {
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
