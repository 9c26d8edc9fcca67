package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// maxLine bounds what is typed in a line, in bytes.
const maxLine = 1 << 20

// lines are what a person types, or a file holds, a line at a time.
type lines struct {
	out   io.Writer // where is asked
	echo  bool      // no terminal shows what is typed
	start func()
	typed chan string
	err   error // why typed is closed, nil at the end of the input
}

// newLines reads from in once something is asked, until ctx ends.
func newLines(ctx context.Context, in io.Reader, out io.Writer) *lines {
	l := &lines{out: out, echo: !isTerminal(in), typed: make(chan string)}
	l.start = sync.OnceFunc(func() { go l.read(ctx, in) })
	return l
}

// read is a goroutine's, for nothing can interrupt reading from a terminal: whoever
// waits for a line need not wait for ever.
func (l *lines) read(ctx context.Context, in io.Reader) {
	defer close(l.typed)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		select {
		case l.typed <- scanner.Text():
		case <-ctx.Done():
			return
		}
	}
	l.err = scanner.Err()
}

// ask shows a prompt and returns what is typed then, [io.EOF] when nothing is left.
func (l *lines) ask(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(l.out, prompt)
	l.start()
	select {
	case line, ok := <-l.typed:
		if !ok {
			fmt.Fprintln(l.out)
			return "", cmp.Or(l.err, io.EOF)
		}
		line = strings.TrimSpace(line)
		if l.echo {
			fmt.Fprintln(l.out, line)
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// isTerminal tells whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
