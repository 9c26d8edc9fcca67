package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// converse types lines to the test server and returns the output of a terminal.
func converse(t *testing.T, typed string, flags ...string) string {
	t.Helper()
	var shown strings.Builder
	line := slices.Concat(flags, []string{"session"}, child(t))
	if err := run(t.Context(), line, strings.NewReader(typed), &shown, &shown); err != nil {
		t.Errorf("the session ends with %v", err)
	}
	return shown.String()
}

func TestSessionGoesOn(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			const typed = `
				# A comment, and what goes wrong, do not end it.
				frobnicate
				read
				call nothing
				call greet {"name": "Ada Lovelace"}
				call greet '{"name": "Alan"}'
				call ask
				Grace
				y
				watch
				call add
				wait`
			shown := converse(t, typed, "-era", era)
			for _, want := range []string{
				"$ # A comment, and what goes wrong, do not end it.\n$ frobnicate\ndovetail: unknown command",
				"dovetail: expected: read URI",
				"unknown tool",
				`"text": "<hello> Ada Lovelace"`,
				`"text": "<hello> Alan"`,
				"The server asks: Who are you?\n  name (text; required): Grace\nSend this? [y]es, [n]o, anything else cancels: y\n",
				`"text": "Grace"`,
				"$ wait\n{\"changed\":\"prompts\"}\n$ \n",
			} {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is not shown in:\n%s", want, shown)
				}
			}
		})
	}
}

func TestSessionLineTakesItsTimeAtMost(t *testing.T) {
	shown := converse(t, "wait\nping\n", "-timeout", "2s")
	if !strings.Contains(shown, "$ wait\ndovetail: no change has come\n$ ping\n{}\n") {
		t.Errorf("shown:\n%s", shown)
	}
}

func TestSessionShowsProgress(t *testing.T) {
	shown := converse(t, "call count\n")
	if !strings.Contains(shown, "$ call count\nprogress 1 of 2: one\nprogress 2: two\n{") {
		t.Errorf("shown:\n%s", shown)
	}
}

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                            nil,
		" \t ":                        nil,
		"tools":                       {"tools"},
		"  read \t a://b ":            {"read", "a://b"},
		`call x {"a": "b c"} `:        {"call", "x", `{"a": "b c"}`},
		`call x '{"a": "b c"}'`:       {"call", "x", `{"a": "b c"}`},
		`complete prompt p a ''`:      {"complete", "prompt", "p", "a", ""},
		`complete prompt p a 'b c' d`: {"complete", "prompt", "p", "a", "b c", "d"},
		`it's here`:                   {"it's", "here"},
		`'open end`:                   {"'open", "end"},
		"read a://{b}":                {"read", "a://{b}"},
	} {
		if got := words(line); !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}

// A function that waits for a line can be interrupted. Its error says why there are no more lines.
func TestLines(t *testing.T) {
	in, _ := io.Pipe() // no input
	defer in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	l := newLineReader(ctx, in, io.Discard)
	cancel()
	if _, err := l.ask(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	broken := errors.New("broken")
	for _, test := range []struct {
		in   io.Reader
		want error
	}{{strings.NewReader(""), io.EOF}, {iotest.ErrReader(broken), broken}} {
		if _, err := newLineReader(t.Context(), test.in, io.Discard).ask(t.Context(), ""); !errors.Is(err, test.want) {
			t.Errorf("error = %v, want %v", err, test.want)
		}
	}
}
