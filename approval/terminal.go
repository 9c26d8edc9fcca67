package approval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Terminal returns an approver that asks a person at a terminal, one question at a time. It
// writes all of a request to out, escaped as [Printable] has it, and a code of four
// characters, and reads lines from in: the code approves, anything else is the reason of a
// refusal. So what was typed before the question was there, or for another one, approves
// nothing. Reading begins with the first question, and ends with in only, since nothing can
// interrupt it: what is typed while nothing is asked is dropped. After the end of in nobody
// can be asked.
func Terminal(in io.Reader, out io.Writer) Approver {
	return &terminal{
		out: out, in: bufio.NewReaderSize(in, maxTyped),
		turn: make(chan struct{}, 1), lines: make(chan string, 1), ended: make(chan struct{}),
	}
}

type terminal struct {
	out   io.Writer
	turn  chan struct{} // held by the question that is shown
	lines chan string   // what is typed while a question is shown
	ended chan struct{} // closed when there is no more input
	in    *bufio.Reader
	start sync.Once

	mu      sync.Mutex
	waiting bool // for a line
}

// maxTyped is how many bytes of a line are read; the rest of it is dropped.
const maxTyped = 4 << 10

// Approve asks when it is this question's turn.
func (t *terminal) Approve(ctx context.Context, r *Request) (Answer, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
	defer func() { <-t.turn }()
	t.start.Do(func() { go t.read() })
	t.listen(true)
	defer t.listen(false)
	code := codeOf(r)
	if _, err := io.WriteString(t.out, terminalText(r, code)); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", Lost, err)
	}
	select {
	case line := <-t.lines:
		return t.decide(strings.TrimSpace(line), code)
	case <-t.ended:
		return Answer{}, Errorf(NoApprover, "nobody is at the terminal")
	case <-ctx.Done():
		_, _ = io.WriteString(t.out, "\nToo late: it is not asked any more.\n") // it may be gone
		return Answer{}, context.Cause(ctx)
	}
}

func (t *terminal) decide(line, code string) (Answer, error) {
	a := Answer{Approved: line == code, By: "terminal"}
	said := "Approved.\n"
	if !a.Approved {
		a.Reason = line
		said = "Refused.\n"
	}
	if _, err := io.WriteString(t.out, said); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", Lost, err)
	}
	return a, nil
}

// codeOf differs from question to question.
func codeOf(r *Request) string { return r.Digest().String()[:4] }

func terminalText(r *Request, code string) string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, Printable(value))
		}
	}
	b.WriteString("\nApproval needed\n")
	field("server", r.Server)
	field("launch", r.Launch)
	field("tool", r.Tool)
	field("digest", r.ToolDigest)
	field("caller", r.Caller)
	fmt.Fprintf(&b, "  %-9s %s\n", "arguments", r.Text())
	field("until", instant(r.Deadline))
	fmt.Fprintf(&b, "Type %s to approve, anything else to refuse: ", code)
	return b.String()
}

// listen says whether lines are wanted, and drops what came before.
func (t *terminal) listen(wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = wanted
	select {
	case <-t.lines:
	default:
	}
}

// read reads lines up to the end of the input.
func (t *terminal) read() {
	defer close(t.ended)
	for {
		line, err := t.readLine()
		if err != nil {
			return
		}
		t.mu.Lock()
		if t.waiting {
			t.waiting = false
			t.lines <- line // there is room: the last one was dropped or taken
		}
		t.mu.Unlock()
	}
}

// readLine drops what is too long, and a last line without an end.
func (t *terminal) readLine() (string, error) {
	text, err := t.in.ReadSlice('\n')
	line := string(text)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = t.in.ReadSlice('\n')
	}
	return line, err
}
