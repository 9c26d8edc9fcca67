package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

// sessionVerb is the verb that takes others, line by line.
const sessionVerb = "session"

// sessionVerbs are those of which a session has its own.
var sessionVerbs = map[string]verb{"listen": listenOn, "wait": wait}

// converse runs the verbs that are typed, in one session, until there are no more.
// What goes wrong with one is said, and does not end the others.
func (c *command) converse(ctx context.Context, i *inspection, typed *lines) error {
	if err := takes(c.args, 0, 0, sessionVerb); err != nil {
		return err
	}
	for {
		line, err := typed.ask(ctx, "$ ")
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.line(ctx, i, words(line)); err != nil && !errors.As(err, new(exitStatus)) {
			fmt.Fprintln(typed.out, "inspect:", err)
		}
	}
}

// line runs one verb, within the time that a command has. An empty line, or one that
// begins with #, has none.
func (c *command) line(ctx context.Context, i *inspection, words []string) error {
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	run, ok := sessionVerbs[words[0]]
	if !ok {
		run, ok = verbs[words[0]]
	}
	if !ok {
		return fmt.Errorf("unknown verb %q: expected one of %s, wait", words[0], strings.Join(verbNames(), ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return run(ctx, i, words[1:])
}

// words are a line's, as a shell would take it apart: at spaces that do not stand
// between single quotes. What begins with a brace is one word up to the line's end, so
// that JSON needs no quotes.
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

// listenOn subscribes for as long as the session lasts.
func listenOn(ctx context.Context, i *inspection, args []string) error {
	_, err := i.session.Subscribe(ctx, everyChange(args))
	return err
}

// wait shows the next change that has not been shown.
func wait(ctx context.Context, i *inspection, args []string) error {
	if err := takes(args, 0, 0, "wait"); err != nil {
		return err
	}
	select {
	case change := <-i.changes:
		_, err := fmt.Fprintf(i.out, "%s\n", change)
		return err
	case <-ctx.Done():
		return errors.New("no change has come")
	}
}

// everyChange are changes of all lists, and of some resources.
func everyChange(uris []string) mcp.SubscriptionFilter {
	return mcp.SubscriptionFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
		ResourceSubscriptions: uris,
	}
}
