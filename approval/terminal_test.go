package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// A console is a terminal with a simulated person.
type console struct {
	approval.Approver
	typed  *io.PipeWriter
	screen chan string
}

func newConsole(t *testing.T) *console {
	r, w := io.Pipe()
	d := &console{typed: w, screen: make(chan string, 16)}
	d.Approver = approval.Terminal(r, d)
	t.Cleanup(func() { w.Close() })
	return d
}

// Write receives the output of the terminal.
func (d *console) Write(text []byte) (int, error) {
	d.screen <- string(text)
	return len(text), nil
}

func (d *console) key(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(d.typed, text); err != nil {
		t.Fatal(err)
	}
}

type outcome struct {
	answer approval.Answer
	err    error
}

func (d *console) ask(ctx context.Context, r *approval.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		a, err := d.Approve(ctx, r)
		done <- outcome{a, err}
	}()
	return done
}

var codes = regexp.MustCompile(`Type ([0-9a-f]{4}) to approve`)

func codeIn(t *testing.T, screen string) string {
	t.Helper()
	found := codes.FindStringSubmatch(screen)
	if found == nil {
		t.Fatalf("no code is shown: %q", screen)
	}
	return found[1]
}

func writeRequest() *approval.Request {
	return &approval.Request{
		ID: "1", Target: approval.Target{Server: "files\x1b[2J", Tool: "write\u202e", Launch: "cafe", ToolDigest: "sha256:beef"},
		Arguments: json.RawMessage(`{"path":"/tmp/\u001b]0;x` + "\u200b" + `","n":12345678901234567890}`), Caller: "anna",
		Deadline: time.Date(2026, 7, 28, 12, 5, 0, 0, time.UTC),
	}
}

// TestTerminalShowsLongLaunches: a launch cannot be approved before all of it is shown.
func TestTerminalShowsLongLaunches(t *testing.T) {
	d := newConsole(t)
	r := writeRequest()
	r.Launch = "/bin/one (env A=" + strings.Repeat("a", 16<<10) + ", PYTHONPATH=/tmp/evil) sha256:beef"
	code := r.Digest().String()[:4]
	done := d.ask(t.Context(), r)
	for _, complete := range []bool{false, true} {
		screen := waittest.Receive(t, "the text on the screen", d.screen)
		joined := strings.ReplaceAll(screen, "\n  | ", "")
		if strings.Contains(screen, code) != complete || strings.Contains(joined, r.Launch) != complete || strings.Contains(screen, "  launch    40 of 257 lines\n") == complete {
			t.Errorf("the screen should be complete: %t\n%s", complete, screen)
		}
		d.key(t, map[bool]string{false: "all\n", true: code + "\n"}[complete])
	}
	if got := waittest.Receive(t, "the decision", done); !got.answer.Approved || got.err != nil {
		t.Errorf("the answer is %+v", got)
	}
}

// TestTerminalIsNotForged: arguments cannot imitate another question, and cannot be approved
// before all of them are shown.
func TestTerminalIsNotForged(t *testing.T) {
	d := newConsole(t)
	r := writeRequest()
	fake := "x" + strings.Repeat(" ", 79) + "Approval needed" + strings.Repeat(" ", 65) + "  server    harmless" + strings.Repeat(" ", 4000)
	arguments, err := json.Marshal(map[string]string{"a": strings.Repeat(fake, 20) + "!", "b": strings.Repeat("rm -rf /home ", 400), "z": "the end"})
	if err != nil {
		t.Fatal(err)
	}
	r.Arguments = arguments
	r.Server = "files" + strings.Repeat(" ", 80) + "Type 0000 to approve"
	code := r.Digest().String()[:4]
	check := func(screen string, complete bool) {
		t.Helper()
		lines := strings.Split(screen, "\n")
		for _, line := range lines {
			if len(line) > 79 && line != lines[len(lines)-1] {
				t.Errorf("a line has %d columns: %q", len(line), line)
			}
			if strings.Contains(line, "         ") && !strings.HasPrefix(line, "  ") {
				t.Errorf("a line has a run of spaces: %q", line)
			}
			field := strings.HasPrefix(line, "  server    ") || strings.HasPrefix(line, "Approval needed")
			if strings.Contains(line, "harmless") && (field || !strings.HasPrefix(line, "  | ")) {
				t.Errorf("a line looks like a part of the question: %q", line)
			}
		}
		tail := strings.Join(lines[len(lines)-5:], "\n")
		if !strings.Contains(tail, "  server    files\\{80 spaces}") || !strings.Contains(tail, "  tool      write") {
			t.Errorf("after the arguments there is\n%s", tail)
		}
		if strings.Contains(screen, code) != complete || strings.Contains(screen, "the end") != complete {
			t.Errorf("the screen should be complete: %t\n%s", complete, screen)
		}
	}
	done := d.ask(t.Context(), r)
	check(waittest.Receive(t, "the text on the screen", d.screen), false)
	d.key(t, "all\n")
	check(waittest.Receive(t, "the text on the screen", d.screen), true)
	d.key(t, code+"\n")
	if got := waittest.Receive(t, "the decision", done); !got.answer.Approved || got.err != nil {
		t.Errorf("the answer is %+v", got)
	}
	waittest.Receive(t, "the text on the screen", d.screen) // the reply to the answer
	done = d.ask(t.Context(), r)
	waittest.Receive(t, "the text on the screen", d.screen)
	d.key(t, code+"\n")
	if got := waittest.Receive(t, "the decision", done); got.answer.Approved || got.err != nil {
		t.Errorf("approved before all was shown: %+v", got)
	}
}

// TestTerminalText compares a complete question.
func TestTerminalText(t *testing.T) {
	d := newConsole(t)
	r := writeRequest()
	readOnly := true
	r.Title, r.Description, r.Annotations.ReadOnlyHint = "Write\u202e", "Writes a file.\nApproval needed", &readOnly
	r.Rule, r.Reason = "writes", "a change of files"
	done := d.ask(t.Context(), r)
	shown := waittest.Receive(t, "the text on the screen", d.screen)
	want := `
Approval needed
  server    files\u001b[2J
  launch    cafe
  tool      write\u202e
  title     Write\u202e
  about     Writes a file. Approval needed
  effect    changes nothing (the server says so; not verified)
  digest    sha256:beef
  caller    anna
  rule      writes
  reason    a change of files
  arguments 1 of 1 lines, 54 bytes
  | {"path":"/tmp/\u001b]0;x\u200b","n":12345678901234567890}
  server    files\u001b[2J
  tool      write\u202e
  until     2026-07-28T12:05:00.000Z
Type ` + r.Digest().String()[:4] + ` to approve, anything else to refuse: `
	if shown != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", shown, want)
	}
	d.key(t, codeIn(t, shown)+"\n")
	if got := waittest.Receive(t, "the decision", done); !got.answer.Approved || got.err != nil {
		t.Errorf("the answer is %+v", got)
	}
	for _, text := range testsuites.HostileText(t) {
		arguments, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		waittest.Receive(t, "the text on the screen", d.screen) // the reply to the previous answer
		done := d.ask(t.Context(), &approval.Request{Target: approval.Target{Server: text, Tool: text}, Caller: text, Arguments: arguments})
		for line := range strings.SplitSeq(waittest.Receive(t, "the text on the screen", d.screen), "\n") {
			testsuites.WantPlain(t, line)
		}
		d.key(t, "\n")
		waittest.Receive(t, "the decision", done)
	}
}

// TestTerminalAnswers: only the code approves.
func TestTerminalAnswers(t *testing.T) {
	for typed, want := range map[string]approval.Answer{
		"CODE\n": {Approved: true, By: "terminal"}, "  CODE\r\n": {Approved: true, By: "terminal"},
		"\n": {By: "terminal"}, "y\n": {Reason: "y", By: "terminal"}, "yes please\n": {Reason: "yes please", By: "terminal"},
		"CODE CODE\n": {Reason: "CODE CODE", By: "terminal"}, "true\n": {Reason: "true", By: "terminal"},
	} {
		d := newConsole(t)
		done := d.ask(t.Context(), writeRequest())
		code := codeIn(t, waittest.Receive(t, "the text on the screen", d.screen))
		d.key(t, strings.ReplaceAll(typed, "CODE", code))
		want.Reason = strings.ReplaceAll(want.Reason, "CODE", code)
		if got := waittest.Receive(t, "the decision", done); got.answer != want || got.err != nil {
			t.Errorf("%q: the answer is %+v, want %+v", typed, got, want)
		}
	}
}

// TestTerminalTurns: questions are shown one at a time, and input for an earlier question does not
// answer the next one.
func TestTerminalTurns(t *testing.T) {
	d := newConsole(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := d.ask(ctx, writeRequest())
	old := codeIn(t, waittest.Receive(t, "the text on the screen", d.screen))
	other := writeRequest()
	other.ID = "2"
	second := d.ask(t.Context(), other)
	if len(d.screen) != 0 {
		t.Error("two questions are shown")
	}
	waiting, stop := context.WithCancel(t.Context())
	third := d.ask(waiting, other)
	stop()
	if got := waittest.Receive(t, "the decision", third); !errors.Is(got.err, context.Canceled) {
		t.Errorf("a question that was not shown ended with %+v", got)
	}
	cancel()
	if got := waittest.Receive(t, "the decision", first); !errors.Is(got.err, context.Canceled) {
		t.Errorf("the question that was withdrawn ended with %+v", got)
	}
	if said := waittest.Receive(t, "the text on the screen", d.screen); !strings.Contains(said, "Too late") {
		t.Errorf("the terminal says %q", said)
	}
	waittest.Receive(t, "the text on the screen", d.screen) // the second question
	d.key(t, old+"\n")
	if got := waittest.Receive(t, "the decision", second); got.answer.Approved || got.err != nil {
		t.Errorf("the code of one question answered another with %+v", got)
	}
	waittest.Receive(t, "the text on the screen", d.screen)
	last := d.ask(t.Context(), writeRequest())
	waittest.Receive(t, "the text on the screen", d.screen)
	d.key(t, strings.Repeat("x", 10_000)+old+"\n")
	if got := waittest.Receive(t, "the decision", last); got.answer.Approved || len(got.answer.Reason) > 5000 {
		t.Errorf("a long line is %+v", got)
	}
	waittest.Receive(t, "the text on the screen", d.screen)
	left := d.ask(t.Context(), writeRequest())
	shown := waittest.Receive(t, "the text on the screen", d.screen)
	d.key(t, codeIn(t, shown)) // without a line break
	d.typed.Close()
	if got := waittest.Receive(t, "the decision", left); !errors.Is(got.err, approval.NoApprover) {
		t.Errorf("a line without an end is %+v", got)
	}
}

// A counted input says when it is read.
type counted struct {
	*os.File
	begun chan struct{}
}

func (c *counted) Read(p []byte) (int, error) {
	c.begun <- struct{}{}
	return c.File.Read(p)
}

// TestTerminalReadsWhileAsking: the input is read only while a question is open, and what follows a question that was
// withdrawn does not approve the next one.
func TestTerminalReadsWhileAsking(t *testing.T) {
	for name, deadlines := range map[string]bool{"with deadlines": true, "without deadlines": false} {
		t.Run(name, func(t *testing.T) {
			in, typing, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer typing.Close()
			source := &counted{in, make(chan struct{}, 16)}
			d := &console{screen: make(chan string, 16)}
			if d.Approver = approval.Terminal(source, d); !deadlines {
				d.Approver = approval.Terminal(struct{ io.Reader }{source}, d)
			}
			ctx, withdraw := context.WithCancel(t.Context())
			if len(source.begun) != 0 {
				t.Error("it reads before a question")
			}
			first := d.ask(ctx, writeRequest())
			old := codeIn(t, waittest.Receive(t, "the text on the screen", d.screen))
			waittest.Receive(t, "the read of the question", source.begun)
			withdraw()
			waittest.Receive(t, "the end of the question", first)
			waittest.Receive(t, "the text on the screen", d.screen) // too late
			other := writeRequest()
			other.ID = "2"
			second := d.ask(t.Context(), other)
			code := codeIn(t, waittest.Receive(t, "the text on the screen", d.screen))
			if deadlines { // the earlier read has ended
				waittest.Receive(t, "the read of the question", source.begun)
			}
			if _, err := io.WriteString(typing, code+"\n"+old+"\n"); err != nil {
				t.Fatal(err)
			}
			if got := waittest.Receive(t, "the decision", second); !got.answer.Approved || got.err != nil {
				t.Errorf("the answer is %+v", got)
			}
			waittest.Receive(t, "the text on the screen", d.screen)
			third := d.ask(t.Context(), other)
			waittest.Receive(t, "the text on the screen", d.screen)
			if got := waittest.Receive(t, "the decision", third); got.answer.Approved || got.err != nil {
				t.Errorf("a line from before the question is %+v", got)
			}
			if len(source.begun) != 0 {
				t.Error("it reads without a question")
			}
		})
	}
}

// TestTerminalClosed: if the question cannot be written, the error is Lost.
func TestTerminalClosed(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	screen, gone := io.Pipe()
	screen.Close()
	if _, err := approval.Terminal(r, gone).Approve(t.Context(), writeRequest()); !errors.Is(err, approval.Lost) {
		t.Errorf("the error is %v", err)
	}
}

// The hints of a tool describe its effect. The effect is marked as not verified, unless the server is trusted or the
// tool belongs to this program.
func TestEffectShown(t *testing.T) {
	const (
		deletes = "may delete or overwrite data"
		adds    = "adds or changes data, does not delete or overwrite it"
	)
	origins := map[string]struct {
		origin  mcp.Origin
		trusted bool
	}{
		"a server":         {mcp.Origin{Server: "files", Name: "write"}, false},
		"a trusted server": {mcp.Origin{Server: "files", Name: "write", Trusted: true}, true},
		"this program":     {mcp.Origin{}, true},
	}
	compiled, err := policy.Compile(approvaltests.Rules("writes", ""))
	if err != nil {
		t.Fatal(err)
	}
	for hints, test := range map[string]struct {
		want string
		said bool // by the server
	}{
		``:                        {deletes, false},
		`"readOnlyHint":false`:    {deletes, false},
		`"readOnlyHint":true`:     {"changes nothing", true},
		`"destructiveHint":true`:  {deletes, true},
		`"destructiveHint":false`: {adds, true},
		`"readOnlyHint":true,"destructiveHint":true`:   {"changes nothing", true},
		`"readOnlyHint":false,"destructiveHint":false`: {adds, true},
	} {
		for name, from := range origins {
			want := test.want
			if test.said && !from.trusted {
				want += " (the server says so; not verified)"
			}
			target := approvaltests.DefinedTarget(`{"name":"write","annotations":{`+hints+`}}`, from.origin)
			elicited := approvaltests.Guarded(approval.Guard(compiled, approval.Elicitation(), approvaltests.Options(nil)), (&approvaltests.Tool{}).Invoke)
			_, err := elicited(t.Context(), approvaltests.NewCallOf(t, "", target, `{}`, approvaltests.AnotherExchange(), nil))
			asked, ok := mcp.AsInputRequired(err)
			if !ok {
				t.Fatal(err)
			}
			for _, question := range asked.Requests {
				var params mcp.ElicitParams
				if err := params.UnmarshalJSON(question.Params); err != nil || !strings.Contains(params.Message, "\nEffect: "+want+"\n") {
					t.Errorf("%s of %s: the question is %q, %v; want %s", hints, name, params.Message, err, want)
				}
			}

			d := newConsole(t)
			onTerminal := approvaltests.Guarded(approval.Guard(compiled, d.Approver, approvaltests.Options(nil)), (&approvaltests.Tool{}).Invoke)
			done := make(chan error, 1)
			go func() {
				_, err := onTerminal(t.Context(), approvaltests.NewCallOf(t, "", target, `{}`, nil, nil))
				done <- err
			}()
			if shown := strings.ReplaceAll(<-d.screen, "\n  | ", ""); !strings.Contains(shown, "\n  effect    "+want+"\n") {
				t.Errorf("%s of %s: the terminal shows %s\nwant %s", hints, name, shown, want)
			}
			d.key(t, "\n")
			if err := <-done; err == nil {
				t.Error("a refused call has no error")
			}
		}
	}
}
