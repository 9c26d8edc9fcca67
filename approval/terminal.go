package approval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
// A goroutine reads in until in ends, and drops lines that no question waits for. On Linux, a
// question discards what was typed before it if in is a terminal, and ignores a refusal within
// 200 ms. When in has ended, the error
// is [NoApprover].
func Terminal(in io.Reader, out io.Writer) Approver {
	t := &terminal{
		out: out, source: in, in: bufio.NewReaderSize(in, maxTyped),
		mutex: make(chan struct{}, 1), lines: make(chan string, 1), ended: make(chan struct{}),
	}
	go t.read()
	return t
}

type terminal struct {
	out   io.Writer
	mutex chan struct{} // held by the current question; a channel, so that waiting can be canceled
	lines chan string   // input for the current question
	ended chan struct{} // closed at the end of in
	in    *bufio.Reader

	source io.Reader // of in

	mu       sync.Mutex
	expected string    // the line that does not refuse the current question; "" if no question waits
	ignored  time.Time // until then, other lines were typed before the question
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
	defer t.listen("")
	code := terminalCode(r)
	width := textWidth(peertext.Columns(t.out))
	text, complete := terminalText(r, code, width, maxShown)
	for {
		expected := code
		if !complete {
			expected = showAll
		}
		t.listen(expected)
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
			text, complete = terminalText(r, code, width, max(len(r.Arguments), len(r.Launch))*maxEscape)
		case <-t.ended:
			return Answer{}, Errorf(NoApprover, "the terminal has no more input")
		case <-ctx.Done():
			_, _ = io.WriteString(t.out, "\nToo late: the request has ended.\n") // the terminal may be closed
			return Answer{}, context.Cause(ctx)
		}
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

// listen sets the line that a question expects, "" for no question, and drops earlier input.
func (t *terminal) listen(expected string) {
	var ignored time.Time
	if expected != "" && tty.DiscardInput(t.source) {
		ignored = time.Now().Add(reactionTime)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected, t.ignored = expected, ignored
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
		// A line may have been on its way from the kernel when listen discarded the input.
		if t.expected != "" && (strings.TrimSpace(line) == t.expected || !time.Now().Before(t.ignored)) {
			t.expected = ""
			t.lines <- line // does not block: listen or Approve has emptied the channel
		}
		t.mu.Unlock()
	}
}

// readLine reads a line, without the part that is too long. A last line without a line break is
// an error.
func (t *terminal) readLine() (string, error) {
	text, err := t.in.ReadSlice('\n')
	line := string(text)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = t.in.ReadSlice('\n')
	}
	return line, err
}
