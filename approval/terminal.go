package approval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/approval/internal/tty"
	"github.com/dovetail-go/dovetail/internal/peertext"
)

// Terminal returns an approver that asks a person at a terminal, one question at a time.
//
// For each request it writes the complete request to out, escaped as [Printable] does, and a
// code of four characters. Titles, descriptions and reasons are shortened to 600 bytes. Then it reads a line from in: the code approves, and any other line
// is the reason for a refusal. The code differs between requests, so that input for an earlier
// question approves nothing. If the arguments or the launch take more than 40 lines, it shows the first 40,
// and shows the others and the code only after the person has typed "all". If out is a terminal,
// lines are as long as the window permits, and at most 76 columns.
//
// in is read only while a question is open, so that a background job of a shell runs until there is one. What is typed
// before a question is discarded if in is a terminal; other input that comes before a question is read by it, and
// refuses. On a terminal, a question ignores a refusal within 200 ms. If in has the method SetReadDeadline and supports
// it, reading ends with the question; otherwise a goroutine waits for one more line, which the next question gets if it
// comes after it. When in has ended, the error is [NoApprover].
func Terminal(in io.Reader, out io.Writer) Approver {
	return &terminal{out: out, source: in, in: bufio.NewReaderSize(in, maxTyped), mutex: make(chan struct{}, 1), lines: make(chan typed, 1)}
}

type terminal struct {
	out    io.Writer
	source io.Reader
	in     *bufio.Reader // of source

	mutex   chan struct{} // held by the current question, which owns what follows; a channel, so that waiting can be canceled
	reading bool          // a goroutine reads a line
	lines   chan typed    // gets that line
}

// A typed is a line of input, or the error of reading it.
type typed struct {
	line string
	err  error
}

// reactionTime is how long a person needs at least to refuse a question at a terminal.
const reactionTime = 200 * time.Millisecond

// maxTyped is the maximum length of a line, in bytes; the rest is dropped.
const maxTyped = 4 << 10

// Approve waits for earlier questions, and asks.
func (t *terminal) Approve(ctx context.Context, r *Request) (Answer, error) {
	select {
	case t.mutex <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
	defer func() { <-t.mutex }()
	code := terminalCode(r)
	width := textWidth(peertext.Columns(t.out))
	text, complete := terminalText(r, code, width, maxShown)
	for {
		expected := code
		if !complete {
			expected = showAll
		}
		ignored := t.discard()
		if _, err := io.WriteString(t.out, text); err != nil {
			return Answer{}, fmt.Errorf("%w: %w", Lost, err)
		}
		line, err := t.readLine(ctx)
		for err == nil && line != expected && time.Now().Before(ignored) { // typed before, and on its way from the kernel
			line, err = t.readLine(ctx)
		}
		switch {
		case ctx.Err() != nil:
			_, _ = io.WriteString(t.out, "\nToo late: the request has ended.\n") // the terminal may be closed
			return Answer{}, context.Cause(ctx)
		case err == io.EOF:
			return Answer{}, Errorf(NoApprover, "the terminal has no more input")
		case err != nil:
			return Answer{}, Errorf(NoApprover, "the terminal cannot be read: %v", err)
		case complete || line != showAll:
			return t.decide(line, complete && line == code)
		}
		text, complete = terminalText(r, code, width, max(len(r.Arguments), len(r.Launch))*maxEscape)
	}
}

func (t *terminal) decide(line string, approved bool) (Answer, error) {
	a := Answer{Approved: approved, By: "terminal"}
	reply := "Approved.\n"
	if !a.Approved {
		a.Reason = line
		reply = "Refused.\n"
	}
	if _, err := io.WriteString(t.out, reply); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", Lost, err)
	}
	return a, nil
}

// terminalCode returns the code that approves a request.
func terminalCode(r *Request) string { return r.Digest().String()[:4] }

// The layout of a question. Long values are wrapped, and continuation lines begin with a margin,
// so that a value cannot imitate another part of the question.
const (
	maxWidth  = 64 // columns of a value per line
	minWidth  = 8  // likewise, in a narrow window
	nameWidth = 12 // columns before a value
	maxShown  = 40 // lines of arguments, and of the launch, before the person types showAll
	maxEscape = 6  // maximum number of bytes for an escaped byte
	margin    = "  | "
	showAll   = "all" // input that shows all lines
)

// textWidth returns the columns of a value per line in a window with a number of columns, which
// is 0 if it is not known.
func textWidth(columns int) int {
	if columns == 0 {
		return maxWidth
	}
	return min(maxWidth, max(minWidth, columns-nameWidth-1)) // the last column may cause a line break
}

// terminalText returns a question with at most limit lines of arguments, and width columns of a
// value per line. It contains the code only if it is complete.
func terminalText(r *Request, code string, width, limit int) (text string, complete bool) {
	var b strings.Builder
	fieldLines := func(name string, lines []string) {
		for i, line := range lines {
			if i == 0 {
				fmt.Fprintf(&b, "  %-9s %s\n", name, line)
			} else {
				b.WriteString(margin + line + "\n")
			}
		}
	}
	field := func(name, value string) { fieldLines(name, peertext.Wrap(value, width)) }
	b.WriteString("\nApproval needed\n")
	field("server", Printable(r.Server))
	launch := peertext.Wrap(Printable(r.Launch), width)
	hidden := max(0, len(launch)-limit)
	fieldLines("launch", launch[:len(launch)-hidden])
	if hidden > 0 {
		fmt.Fprintf(&b, "  launch    %d of %d lines\n", len(launch)-hidden, len(launch))
	}
	field("tool", Printable(r.Tool))
	field("title", paragraph(r.Title))
	field("about", paragraph(r.Description))
	field("effect", r.effect())
	field("digest", Printable(r.ToolDigest))
	field("caller", Printable(r.Caller))
	if r.Script != "" {
		field("script", paragraph(r.Script))
	}
	field("rule", paragraph(r.Rule))
	field("reason", paragraph(r.Reason))
	lines := peertext.Wrap(r.Text(), width)
	shown := lines[:min(len(lines), limit)]
	fmt.Fprintf(&b, "  arguments %d of %d lines, %d bytes\n", len(shown), len(lines), len(r.Arguments))
	for _, line := range shown {
		b.WriteString(margin + line + "\n")
	}
	field("server", Printable(r.Server))
	field("tool", Printable(r.Tool))
	field("until", formatTime(r.Deadline))
	if hidden += len(lines) - len(shown); hidden > 0 {
		fmt.Fprintf(&b, "Type %s to show %d more lines, anything else to refuse: ", showAll, hidden)
		return b.String(), false
	}
	fmt.Fprintf(&b, "Type %s to approve, anything else to refuse: ", code)
	return b.String(), true
}

// discard drops input that came before a question. On a terminal, lines that do not answer the question are ignored
// until the returned time.
func (t *terminal) discard() (ignored time.Time) {
	if tty.DiscardInput(t.source) {
		ignored = time.Now().Add(reactionTime)
	}
	select {
	case <-t.lines:
		t.reading = false
	default:
	}
	return ignored
}

// readLine returns the next line without spaces around it. It ends with ctx.
func (t *terminal) readLine(ctx context.Context) (string, error) {
	if !t.reading {
		t.reading = true
		go func() {
			line, err := readTyped(t.in)
			t.lines <- typed{strings.TrimSpace(line), err} // does not block: the line before was received
		}()
	}
	select {
	case next := <-t.lines:
		t.reading = false
		return next.line, next.err
	case <-ctx.Done():
		t.stopReading()
		return "", context.Cause(ctx)
	}
}

// A readDeadliner can end a read, as an [os.File] can on most systems if it is a terminal or a pipe. Without it, a read
// ends with the next line.
type readDeadliner interface{ SetReadDeadline(t time.Time) error }

// stopReading ends a read, if the source supports it.
func (t *terminal) stopReading() {
	source, ok := t.source.(readDeadliner)
	if !ok || source.SetReadDeadline(time.Now()) != nil {
		return
	}
	<-t.lines
	t.reading = false
	_ = source.SetReadDeadline(time.Time{}) // as the one before
}

// readTyped reads a line, without the part that is too long. A last line without a line break is
// an error.
func readTyped(in *bufio.Reader) (string, error) {
	text, err := in.ReadSlice('\n')
	line := string(text)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return line, err
}
