package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
)

// A pty is a pseudo-terminal, pty(7). The program has its other end as its controlling terminal.
type pty struct {
	file  *os.File
	shown *bufio.Reader
}

// openPTY opens a pseudo-terminal with a number of columns.
func openPTY(t *testing.T, columns uint16) (terminal *pty, other *os.File) {
	t.Helper()
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	screen := &output{}
	read := make(chan struct{})
	go func() { // always, since the program waits for a terminal that is not read
		defer close(read)
		_, _ = io.Copy(screen, file) // until the program has ended
		screen.close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(func() {
		cancel()
		file.Close()
		<-read
	})
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number uint32
	var failed error
	err = raw.Control(func(fd uintptr) {
		if number, failed = unix.IoctlGetUint32(int(fd), unix.TIOCGPTN); failed != nil {
			return
		}
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed != nil {
			return
		}
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	other, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &pty{file, bufio.NewReader(&follower{screen, ctx, 0})}, other
}

// key types a text.
func (p *pty) key(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p.file, text); err != nil {
		t.Fatal(err)
	}
}

// until returns the output of the terminal up to a text.
func (p *pty) until(t *testing.T, text string) string {
	t.Helper()
	var shown []byte
	for !bytes.HasSuffix(shown, []byte(text)) {
		next, err := p.shown.ReadByte()
		if err != nil {
			t.Fatalf("%v: the terminal shows %q, want %q", err, shown, text)
		}
		shown = append(shown, next)
	}
	return string(shown)
}

// rest returns the output of the terminal until the program ends.
func (p *pty) rest() string {
	shown, _ := io.ReadAll(p.shown) // reading a terminal without a program fails
	return string(shown)
}

// atTerminal runs the program at a terminal, with a shelf behind it that writes a text to its
// standard error. wait returns the state of the program after its end.
func atTerminal(t *testing.T, columns uint16, text string) (p *program, terminal *pty, wait func() *os.ProcessState) {
	t.Helper()
	const token = "0123456789abcdef"
	p = &program{folder: t.TempDir(), token: token}
	flags := p.flags(t)
	p.write(t, "mcp.json", encoded(t, map[string]any{"mcpServers": map[string]any{"shelf": shelfConfig(stderrFile + "=" + p.write(t, "stderr", text))}}))
	terminal, other := openPTY(t, columns)
	command := exec.Command(os.Args[0], append(flags, "-approve", "terminal", "-token", token)...)
	command.Env = append(os.Environ(), asProgram+"=1")
	command.Stdin, command.Stdout, command.Stderr = other, other, other
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	other.Close()
	wait = sync.OnceValue(func() *os.ProcessState {
		_ = command.Wait() // the state says how it ended
		return command.ProcessState
	})
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		wait()
	})
	return p, terminal, wait
}

// unfinished is a line that is typed before a question, without its end.
const unfinished = "and more"

var codeShown = regexp.MustCompile(`Type ([0-9a-f]{4}) to approve`)

// checkScreen checks that a terminal with a number of columns shows visible characters only. Each row with the word
// FAKE must begin with a margin or the name of the server.
func checkScreen(t *testing.T, shown string, columns int) {
	t.Helper()
	shown = strings.ReplaceAll(shown, "\r\n", "\n")
	testsuites.WantPlainLines(t, shown)
	for line := range strings.SplitSeq(shown, "\n") {
		for row := []rune(line); len(row) > 0; row = row[min(columns, len(row)):] {
			text := string(row[:min(columns, len(row))])
			if strings.Contains(text, "FAKE") && !strings.HasPrefix(text, "  ") && !strings.HasPrefix(text, "shelf: ") && !strings.HasPrefix(text, "shelf| ") {
				t.Errorf("a row of the terminal is %q", text)
			}
		}
	}
}

// A person at a real terminal approves a call with hostile arguments. The arguments and the standard error of the
// server do not change the other output of the terminal. Only text typed after a question answers the question.
func TestRealTerminal(t *testing.T) {
	fake := strings.Repeat("FAKE ", 60) + strings.Repeat(" ", 300) + "FAKE\x1b[2J\x1b[1;1HFAKE Approval needed\nFAKE\u202e\u009b\rFAKE"
	for _, columns := range []uint16{80, 40} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			p, terminal, wait := atTerminal(t, columns, fake+"\n"+strings.Repeat("\x1b]52;c;eA==\x07 FAKE\n", 100)+"LAST\n")
			screen := terminal.until(t, "and /metrics")
			p.address = regexp.MustCompile(`http://([\d.:]+)/mcp`).FindStringSubmatch(screen)[1]
			if !strings.Contains(screen, "LAST") {
				screen += terminal.until(t, "LAST")
			}
			rest := p.frontends(t)[1]
			terminal.key(t, "stale\n")
			done := make(chan error, 1)
			call := func() {
				_, err := rest.call(t.Context(), "put", `{"path":`+encoded(t, p.path("file"))+`,"text":`+encoded(t, "x"+strings.ReplaceAll(fake, "\n", "\t"))+`}`)
				done <- err
			}
			for i := range 3 {
				terminal.key(t, "typed ahead\n"+unfinished)
				screen += strings.TrimSuffix(terminal.until(t, unfinished), unfinished) // the echo
				go call()
				question := terminal.until(t, "anything else to refuse: ")
				screen += question
				code := codeShown.FindStringSubmatch(strings.ReplaceAll(question, "\r\n", ""))
				if code == nil {
					t.Fatalf("the terminal shows no code: %q", question)
				}
				terminal.key(t, code[1]+"\n")
				screen += terminal.until(t, "Approved.\r\n")
				if err := <-done; err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			if !strings.Contains(strings.ReplaceAll(screen, "\r\n  | ", ""), `FAKE\u001b[2J\u001b[1;1HFAKE Approval needed\tFAKE\u202e\u009b\rFAKE"`) {
				t.Errorf("the terminal does not show the arguments: %q", screen)
			}
			checkScreen(t, screen, int(columns))
			go call()
			terminal.until(t, "anything else to refuse: ")
			terminal.key(t, "\x03") // Ctrl-C
			if err := <-done; err == nil {
				t.Error("the call that waited was made")
			}
			if state := wait(); !state.Exited() || state.ExitCode() != 0 {
				t.Errorf("after Ctrl-C the program ended with %v: %q", state, terminal.rest())
			}
			if got := bytes.Count(readFile(t, p.path("file")), []byte("xFAKE")); got != 3 {
				t.Errorf("it is done %d times, want 3", got)
			}
		})
	}
}

// TestTerminalIsAsked: the question is at the terminal also if the standard streams lead elsewhere, and standard error is
// silent at the terminal while it is open.
func TestTerminalIsAsked(t *testing.T) {
	for name, elsewhere := range map[string]bool{"streams at the terminal": false, "streams elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			p := &program{folder: t.TempDir(), token: "0123456789abcdef"}
			terminal, other := openPTY(t, 80)
			command := exec.Command(os.Args[0], append(p.flags(t), "-approve", "terminal", "-token", p.token)...)
			command.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
			command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
			command.ExtraFiles = []*os.File{other}
			log, err := os.Create(p.path("log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			if command.Stderr = log; !elsewhere {
				command.Stdin, command.Stdout, command.Stderr = other, other, other
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			other.Close()
			defer func() {
				_ = command.Process.Kill()
				_ = command.Wait() // it was killed
			}()
			address := regexp.MustCompile(`http://([\d.:]+)/mcp`)
			if elsewhere {
				waittest.Until(t, "the address", func() bool { return address.Match(readFile(t, p.path("log"))) })
				p.address = string(address.FindSubmatch(readFile(t, p.path("log")))[1])
			} else {
				p.address = address.FindStringSubmatch(terminal.until(t, "and /metrics"))[1]
			}
			for i, frontend := range p.frontends(t) {
				arguments := `{"path":` + encoded(t, p.path("file")) + `,"text":"x"}`
				done := make(chan error, 1)
				go func() { _, err := frontend.call(t.Context(), "put", arguments); done <- err }()
				code := codeShown.FindStringSubmatch(terminal.until(t, "anything else to refuse: "))
				if _, err := frontend.call(t.Context(), "look", arguments); err != nil { // it is logged
					t.Error(err)
				}
				terminal.key(t, code[1]+"\n")
				if shown := terminal.until(t, "Approved.\r\n"); strings.Contains(shown, "tools/call") {
					t.Errorf("the log is shown while a question is open: %q", shown)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				if !elsewhere {
					terminal.until(t, "look") // the log goes on
				}
				if got := len(p.lines(t, "file")); got != 2*(i+1) {
					t.Errorf("%s: it is done %d times, want %d", frontend.name, got, 2*(i+1))
				}
			}
		})
	}
}

// TestTerminalOfABackgroundJob: a job in the background of a shell serves until there is a question, and in the foreground
// the question is answered.
func TestTerminalOfABackgroundJob(t *testing.T) {
	p := &program{folder: t.TempDir(), token: "0123456789abcdef"}
	terminal, other := openPTY(t, 80)
	command := exec.Command("bash", append([]string{"-mc", `"$0" "$@" & echo "job $!;"; read; fg`, os.Args[0]}, append(p.flags(t), "-approve", "terminal", "-token", p.token)...)...)
	command.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	command.Stdin, command.Stdout, command.Stderr = other, other, other
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	other.Close()
	job := regexp.MustCompile(`job (\d+)`).FindStringSubmatch(terminal.until(t, ";"))[1]
	p.address = regexp.MustCompile(`http://([\d.:]+)/mcp`).FindStringSubmatch(terminal.until(t, "and /metrics"))[1]
	rest := p.frontends(t)[1]
	arguments := `{"path":` + encoded(t, p.path("file")) + `,"text":"x"}`
	if _, err := rest.call(t.Context(), "look", arguments); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { _, err := rest.call(t.Context(), "put", arguments); done <- err }()
	code := codeShown.FindStringSubmatch(terminal.until(t, "anything else to refuse: "))
	waittest.Until(t, "the shell stops the job, which reads", func() bool { return bytes.Contains(readFile(t, "/proc/"+job+"/stat"), []byte(") T ")) })
	terminal.key(t, "\n")     // the shell reads it
	terminal.until(t, `"$@"`) // the shell names the job
	terminal.key(t, code[1]+"\n")
	terminal.until(t, "Approved.\r\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
	terminal.key(t, "\x03")
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTerminalIsAskedOverStdio: the questions are at the terminal, while the standard streams have the protocol.
func TestTerminalIsAskedOverStdio(t *testing.T) {
	p := &program{folder: t.TempDir()}
	terminal, other := openPTY(t, 80)
	p.flags(t)
	command := exec.Command(os.Args[0], "serve", "-config", p.path("mcp.json"), "-policy", p.path("policy.json"), "-approve", "terminal")
	command.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	command.ExtraFiles = []*os.File{other}
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	other.Close()
	defer func() {
		in.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}()
	answers := json.NewDecoder(out)
	send := func(id int, method, params string) {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	}
	received := func(id int) string {
		for {
			var message struct {
				ID     json.RawMessage
				Result json.RawMessage
			}
			if err := answers.Decode(&message); err != nil {
				t.Fatal(err)
			}
			if string(message.ID) == strconv.Itoa(id) {
				return string(message.Result)
			}
		}
	}
	send(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)
	received(1)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for id := 2; id < 4; id++ {
		send(id, "tools/call", `{"name":"shelf__put","arguments":{"path":`+encoded(t, p.path("file"))+`,"text":"x"}}`)
		terminal.key(t, codeShown.FindStringSubmatch(terminal.until(t, "anything else to refuse: "))[1]+"\n")
		if result := received(id); strings.Contains(result, mcp.MetaRefusal) {
			t.Error(result)
		}
	}
	if got := len(p.lines(t, "file")); got != 2 {
		t.Errorf("it is done %d times, want twice", got)
	}
}

// TestTerminalIsNeeded: without a terminal of the process there is nobody to ask.
func TestTerminalIsNeeded(t *testing.T) {
	p := &program{folder: t.TempDir()}
	p.flags(t)
	for _, flags := range [][]string{nil, {"-http", "127.0.0.1:0"}} {
		command := exec.Command(os.Args[0], append([]string{"serve", "-config", p.path("mcp.json"), "-approve", "terminal"}, flags...)...)
		command.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		said, err := command.CombinedOutput()
		if command.ProcessState.ExitCode() != int(misused) || !strings.Contains(string(said), "-approve terminal asks at the terminal of this process, and there is none") {
			t.Errorf("%v: %v: %s", flags, err, said)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
