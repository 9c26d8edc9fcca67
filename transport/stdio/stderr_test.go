//go:build unix

package stdio_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/faults"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// maxStderr is the length of the standard error that an error has at most.
const maxStderr = 64 << 10

// A flood on standard error does not stop the child, and only the raw writer gets all of it.
func TestChildFloodsStderr(t *testing.T) {
	var raw counter
	var lines bytes.Buffer
	conn := dial(t, "floods stderr", &stdio.CommandOptions{RawStderr: &raw, Stderr: &lines, Name: "noisy"})
	resp, err := conn.Call(t.Context(), "go", nil)
	if err != nil || string(resp.Result) != `"flooded"` {
		t.Fatalf("answered with %v (%v)", resp, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	_, err = conn.Call(t.Context(), "echo", nil)
	var exit *stdio.ExitError
	if !errors.As(err, &exit) || len(exit.Stderr) != maxStderr || !strings.HasSuffix(exit.Stderr, "\nflooded\n") {
		t.Errorf("the error is %.300v, want the last %d bytes", err, maxStderr)
	}
	if raw.n < 40<<20 {
		t.Errorf("%d bytes were passed on, want all", raw.n)
	}
	if lines.Len() > 300<<10 || !strings.Contains(lines.String(), " more lines (") || !strings.Contains(lines.String(), " suppressed\n") {
		t.Errorf("%d bytes of lines, the last are %q", lines.Len(), lines.String()[max(0, lines.Len()-200):])
	}
	for line := range strings.Lines(lines.String()) {
		if !strings.HasPrefix(line, "noisy: ") {
			t.Errorf("a line is %q", line)
		}
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

// Standard error of a child is shown as visible characters, and so are errors that quote it.
func TestHostileStderr(t *testing.T) {
	texts := testsuites.HostileText(t)
	for _, text := range texts {
		err := &stdio.ExitError{Err: errors.New("exit status 1"), Stderr: "first\n" + text}
		testsuites.WantPlain(t, err.Error())
		if len(err.Error()) > 2000 {
			t.Errorf("an error has %d bytes", len(err.Error()))
		}
	}
	all := strings.Join(texts, "\n")
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	var lines, raw bytes.Buffer
	conn := dial(t, "writes stderr", &stdio.CommandOptions{
		Stderr: &lines, RawStderr: &raw, Name: "\x1b[2J\u202eevil\n", Env: []string{faults.StderrVariable + "=" + path},
	})
	if _, err := conn.Call(t.Context(), "go", nil); err == nil {
		t.Error("the call was answered")
	} else {
		testsuites.WantPlain(t, err.Error())
	}
	conn.Close()
	testsuites.WantPlainLines(t, lines.String())
	if raw.String() != all {
		t.Errorf("the raw output has %d bytes, want the %d of the child", raw.Len(), len(all))
	}
	if got := strings.Count(lines.String(), "\n"); got < len(texts)*9/10 {
		t.Errorf("%d lines for %d texts", got, len(texts))
	}
	for line := range strings.Lines(lines.String()) {
		if !strings.HasPrefix(line, `\u001b[2J\u202eevil\u000a: `) {
			t.Errorf("a line is %q", line)
		}
	}
}

// By default, lines have the name of the program.
func TestStderrNamesTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("ready\r\nto \x1b[2Jserve"), 0o600); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	conn := dial(t, "writes stderr", &stdio.CommandOptions{Stderr: &lines, Env: []string{faults.StderrVariable + "=" + path}})
	conn.Call(t.Context(), "go", nil) // fails, because the child ends
	conn.Close()
	name := filepath.Base(os.Args[0])
	if want := name + ": ready\n" + name + `: to \u001b[2Jserve` + "\n"; lines.String() != want {
		t.Errorf("%q, want %q", &lines, want)
	}
}

// A secret at the place where the kept text begins is redacted as a whole.
func TestSecretAtTheCut(t *testing.T) {
	const secret = "token-0123456789-abcdefghij"
	path := filepath.Join(t.TempDir(), "text")
	for kept := 1; kept < len(secret); kept += 5 { // bytes of the secret within the end of the text
		text := "x" + secret + strings.Repeat("y", maxStderr-kept)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		conn := dial(t, "writes stderr", &stdio.CommandOptions{Secrets: []string{secret}, Env: []string{faults.StderrVariable + "=" + path}})
		_, err := conn.Call(t.Context(), "go", nil)
		exit, ok := errors.AsType[*stdio.ExitError](err)
		if !ok || len(exit.Stderr) > maxStderr || strings.Contains(exit.Stderr, secret[len(secret)-kept:]+"y") {
			t.Errorf("with %d bytes of the secret: %.60v", kept, err)
		}
		conn.Close()
	}
}

// The text of an ExitError has the lines of standard error that look like an error.
func TestExitErrorQuotesErrors(t *testing.T) {
	const prefix = "the server's process has ended: exit status 0"
	many := strings.Repeat("an error\n", 20)
	for name, test := range map[string]struct{ stderr, want string }{
		"nothing": {"", ""},
		"no word": {"\n}\n  \n", ""},
		"Node": {
			"/app/index.js:10\n    throw new Error('no key');\n    ^\n\nError: API_KEY is missing\n    at main (/app/error.js:10:7)\n    at node:internal/main {\n  code: 'E1'\n}\n\nNode.js v22.1.0\n",
			`: "throw new Error('no key');", "Error: API_KEY is missing", "Node.js v22.1.0"`,
		},
		"Python": {
			"Traceback (most recent call last):\r\n  File \"s.py\", line 3\r\nValueError: bad port\r\n", `: "ValueError: bad port"`,
		},
		"ends with a brace": {"{\n  reason: 'closed'\n}\n", `: "reason: 'closed'"`},
		"no error":          {"starting\nbye\n", `: "bye"`},
		"at most ten":       {many + "bye", ": " + strings.Repeat(`"an error", `, 9) + `"bye"`},
	} {
		if got := (&stdio.ExitError{Stderr: test.stderr}).Error(); got != prefix+test.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, prefix+test.want)
		}
	}
}
