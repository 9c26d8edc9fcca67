package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/dovetail-go/dovetail/mcp"
)

// sessionVerb is the verb that reads other verbs from lines.
const sessionVerb = "session"

// sessionVerbs are the verbs that behave differently in a session.
var sessionVerbs = map[string]*verb{"watch": {"watch [URI…]", 0, -1, nil, watchOn}, "wait": {"wait", 0, 0, nil, wait}}

// converse runs the typed verbs in one session. It prints the error of a verb and goes on.
func (c *invocation) converse(ctx context.Context, i *inspection, typed *lineReader) error {
	for {
		line, err := typed.ask(ctx, "$ ")
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.line(ctx, i, words(line)); err != nil && !errors.As(err, new(exitStatus)) {
			printError(typed.out, err)
		}
	}
}

// line runs one verb with the timeout of a command. It ignores empty lines and comments.
func (c *invocation) line(ctx context.Context, i *inspection, words []string) error {
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	v := cmp.Or(sessionVerbs[words[0]], verbs[words[0]])
	if v == nil {
		return unknownCommand(words[0], append(verbNames(), "wait"))
	}
	if err := v.check(words[1:]); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return v.do(ctx, i, words[1:])
}

// words splits a line at spaces outside of single quotes. A word that begins with a brace
// extends to the end of the line, so that JSON needs no quotes.
func words(line string) []string {
	var found []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " \t") {
		if line[0] == '{' {
			return append(found, line)
		}
		var word string
		if quoted, rest, ok := strings.Cut(line[1:], "'"); ok && line[0] == '\'' {
			word, line = quoted, rest
		} else if end := strings.IndexAny(line, " \t"); end >= 0 {
			word, line = line[:end], line[end:]
		} else {
			word, line = line, ""
		}
		found = append(found, word)
	}
	return found
}

// watchOn subscribes until the session ends.
func watchOn(ctx context.Context, i *inspection, args []string) error {
	_, err := i.session.Subscribe(ctx, everyChange(args))
	return err
}

// wait prints the next change.
func wait(ctx context.Context, i *inspection, _ []string) error {
	select {
	case change := <-i.changes:
		_, err := fmt.Fprintf(i.out, "%s\n", change)
		return err
	case <-ctx.Done():
		return errors.New("no change has come")
	}
}

// everyChange selects changes of all lists and of the given resources.
func everyChange(uris []string) mcp.SubscriptionFilter {
	return mcp.SubscriptionFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
		ResourceSubscriptions: uris,
	}
}

// maxLine bounds a typed line, in bytes.
const maxLine = 1 << 20

// A lineReader reads input line by line.
type lineReader struct {
	out   io.Writer // output of the prompts
	echo  bool      // the input is not a terminal: print the lines
	start func()
	lines chan string
	err   error // why lines is closed; nil at the end of the input
}

// newLineReader returns a reader of the lines of in. Reading starts with the first prompt and ends with ctx.
func newLineReader(ctx context.Context, in io.Reader, out io.Writer) *lineReader {
	l := &lineReader{out: out, echo: !isTerminal(in), lines: make(chan string)}
	l.start = sync.OnceFunc(func() { go l.read(ctx, in) })
	return l
}

// read runs in its own goroutine, because a read from a terminal cannot be interrupted.
func (l *lineReader) read(ctx context.Context, in io.Reader) {
	defer close(l.lines)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		select {
		case l.lines <- scanner.Text():
		case <-ctx.Done():
			return
		}
	}
	l.err = scanner.Err()
}

// ask prints a prompt and returns the next line, or [io.EOF].
func (l *lineReader) ask(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(l.out, prompt)
	l.start()
	select {
	case line, ok := <-l.lines:
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

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
