package approval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Terminal returns an approver that asks a person at a terminal, one question at a time. It
// writes all of a request to out, escaped as [Printable] has it, and a code of four
// characters, and reads lines from in: the code approves, anything else is the reason of a
// refusal. Of arguments that take more than 40 lines it shows the first 40, and no code
// until the person has typed "all". So what was typed before the question was there, or for another one, approves
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
	text, complete := terminalText(r, code, maxShown)
	for {
		if _, err := io.WriteString(t.out, text); err != nil {
			return Answer{}, fmt.Errorf("%w: %w", Lost, err)
		}
		select {
		case line := <-t.lines:
			line = strings.TrimSpace(line)
			if complete {
				return t.decide(line, line == code)
			}
			if line != showAll {
				return t.decide(line, false)
			}
			text, complete = terminalText(r, code, len(r.Arguments)*maxEscape)
			t.listen(true)
		case <-t.ended:
			return Answer{}, Errorf(NoApprover, "nobody is at the terminal")
		case <-ctx.Done():
			_, _ = io.WriteString(t.out, "\nToo late: it is not asked any more.\n") // it may be gone
			return Answer{}, context.Cause(ctx)
		}
	}
}

func (t *terminal) decide(line string, approved bool) (Answer, error) {
	a := Answer{Approved: approved, By: "terminal"}
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

// The layout of a question. Lines are broken here and not by the terminal, and what
// continues a value begins with a margin, so that no value can look like another part of
// the question or like a new one.
const (
	lineWidth = 64 // columns of a value in one line
	maxShown  = 40 // lines of arguments that are shown unasked
	maxSpaces = 8  // spaces in a row that are shown as such
	maxEscape = 6  // bytes that one byte becomes when it is escaped
	margin    = "  | "
	showAll   = "all" // what a person types to see all lines
)

// terminalText writes a question with at most so many lines of arguments. If these are
// not all, it asks to show the others, and has no code to approve by.
func terminalText(r *Request, code string, most int) (text string, complete bool) {
	var b strings.Builder
	field := func(name, value string) {
		for i, line := range wrapped(Printable(value)) {
			if i == 0 {
				fmt.Fprintf(&b, "  %-9s %s\n", name, line)
			} else {
				b.WriteString(margin + line + "\n")
			}
		}
	}
	b.WriteString("\nApproval needed\n")
	field("server", r.Server)
	field("launch", r.Launch)
	field("tool", r.Tool)
	field("digest", r.ToolDigest)
	field("caller", r.Caller)
	lines := wrapped(r.Text())
	shown := lines[:min(len(lines), most)]
	fmt.Fprintf(&b, "  arguments %d of %d lines, %d bytes\n", len(shown), len(lines), len(r.Arguments))
	for _, line := range shown {
		b.WriteString(margin + line + "\n")
	}
	field("server", r.Server)
	field("tool", r.Tool)
	field("until", instant(r.Deadline))
	if hidden := len(lines) - len(shown); hidden > 0 {
		fmt.Fprintf(&b, "Type %s to show %d more lines, anything else to refuse: ", showAll, hidden)
		return b.String(), false
	}
	fmt.Fprintf(&b, "Type %s to approve, anything else to refuse: ", code)
	return b.String(), true
}

// wrapped breaks a printable text into lines, and writes long runs of spaces as counts:
// \{12 spaces}, which neither [Printable] nor JSON has otherwise. A character that is not
// ASCII may take two columns.
func wrapped(text string) []string {
	var lines []string
	var line strings.Builder
	width := 0
	add := func(part string, columns int) {
		if width+columns > lineWidth {
			lines = append(lines, line.String())
			line.Reset()
			width = 0
		}
		line.WriteString(part)
		width += columns
	}
	for text != "" {
		rest := strings.TrimLeft(text, " ")
		if spaces := len(text) - len(rest); spaces > maxSpaces {
			count := fmt.Sprintf(`\{%d spaces}`, spaces)
			add(count, len(count))
			text = rest
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		columns := 1
		if r >= utf8.RuneSelf {
			columns = 2
		}
		add(text[:size], columns)
		text = text[size:]
	}
	if line.Len() > 0 {
		lines = append(lines, line.String())
	}
	return lines
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
