//go:build unix

package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A Mode is a way in which a child process misbehaves.
type Mode string

// Modes of a child that answers calls and misbehaves during the call of the method "go".
const (
	ExitsWithError Mode = "exits"                // writes two lines to standard error and exits with status 3
	Exits          Mode = "ends"                 // exits with status 0
	Crashes        Mode = "crashes"              // is killed
	HalfLine       Mode = "half a line"          // writes half of its answer and exits with status 1
	ClosesStdout   Mode = "closes stdout"        // closes its standard output and lives on
	ClosesStdin    Mode = "closes stdin"         // closes its standard input, answers "closed" and lives on
	LeavesChild    Mode = "leaves a child"       // exits with status 5; its child keeps the pipes open
	LeavesStray    Mode = "leaves a stray child" // exits with status 0; its child has left the process group
	KeepsChild     Mode = "keeps a child"        // answers "kept" and has a child that keeps the pipes open
	KeepsDaemons   Mode = "keeps daemons"        // answers "kept" and has descendants in other sessions
	WritesStderr   Mode = "writes stderr"        // writes the file [StderrVariable] to standard error and exits with status 1
	FloodsStderr   Mode = "floods stderr"        // writes 40 MiB to standard error and answers "flooded"
	Environment    Mode = "environment"          // answers with its environment variables
	AnswersTwice   Mode = "answers twice"        // answers "first" and then "second"
	AnswersOthers  Mode = "answers other calls"  // answers calls that nobody has made, and then "own"
	Garbage        Mode = "garbage"              // writes lines that are no messages, and then answers "own"
	Notifies       Mode = "floods notifications" // sends [FloodedNotifications] notifications and then answers "flooded"
	Ignores        Mode = "ignores calls"        // does not answer
)

// Modes of a child that misbehaves from its start.
const (
	Banner     Mode = "banner"            // writes lines that are no messages before it serves, and before each answer
	Sleeps     Mode = "sleeper"           // neither reads nor writes
	Deaf       Mode = "deaf"              // does the same and ignores SIGTERM
	Stopped    Mode = "stopped"           // stops itself with SIGSTOP
	WritesLate Mode = "talks on"          // ignores all input, and writes 1 MB after it has ended
	Speechless Mode = "never initializes" // does not answer initialize and server/discover
	Repeats    Mode = "initializes twice" // answers initialize twice
)

// Environment variables of a child.
const (
	// ModeVariable holds the mode. The main function of the test binary passes it to
	// [RunChild].
	ModeVariable = "FAULTS_MODE"
	// MarkerVariable names a file that the mode [WritesLate] creates when it has written
	// everything.
	MarkerVariable = "FAULTS_MARKER"
	// StderrVariable names the file of the mode [WritesStderr].
	StderrVariable = "FAULTS_STDERR"
)

// FloodedNotifications is the number of notifications that the mode [Notifies] sends.
const FloodedNotifications = 20_000

// RunChild is the main function of a child in a mode. It returns the exit status of the
// process.
//
// The child speaks JSON-RPC, one message a line. It returns the params of the method "echo",
// does not answer "hold", and returns to "held" how often "hold" was called. It serves MCP
// 2025-11-25 with the tool "go".
//
// A mode that starts a process reports its id with the notification "heir". That process
// ends after a minute.
func RunChild(mode Mode) (status int) {
	switch mode {
	case Sleeps:
		sleep()
	case Deaf:
		signal.Ignore(syscall.SIGTERM)
		sleep()
	case Stopped:
		return complain(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	case WritesLate:
		return writeAfterEOF()
	}
	c := &child{mode: mode}
	return c.serve()
}

// sleep is longer than every test and ends processes of failed ones.
func sleep() { <-time.After(time.Minute) }

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "child:", err)
	return 99
}

type child struct {
	mode Mode
	held int
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

const banner = "Welcome!\r\n\n\ufeff{\"jsonrpc\":\"2.0\",\"method\":\"bom\"}\n\x1b[32mready\x1b[0m\n[]\nnull\n\xff\xfe\n"

func (c *child) serve() int {
	if c.mode == Banner {
		fmt.Print(banner + strings.Repeat("x", 100_000) + "\n" + `{"jsonrpc":"2.0","id":77,"result":{}}` + "\n")
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var msg message
		if err := json.Unmarshal(line, &msg); err != nil {
			return complain(err)
		}
		if msg.ID == nil || msg.Method == "" {
			continue
		}
		if status, ended := c.handle(&msg); ended {
			return status
		}
	}
}

// reply answers a message with a result.
func reply(to *message, result string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", to.ID, result)
}

// initialized is the result of initialize.
const initialized = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}`

func (c *child) handle(msg *message) (status int, ended bool) {
	switch msg.Method {
	case "echo":
		if c.mode == Banner {
			fmt.Print("about to answer\n")
		}
		reply(msg, string(msg.Params))
	case "hold":
		c.held++
	case "held":
		reply(msg, fmt.Sprint(c.held))
	case "initialize":
		if c.mode != Speechless {
			reply(msg, initialized)
		}
		if c.mode == Repeats {
			reply(msg, `{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"other","version":"2"}}`)
		}
	case "ping":
		reply(msg, `{}`)
	case "tools/list":
		reply(msg, `{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}`)
	case "go", "tools/call":
		return c.misbehave(msg)
	default:
		if c.mode != Speechless {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`+"\n", msg.ID)
		}
	}
	return 0, false
}

// text returns a result with a text: for tools/call the result of a tool.
func (msg *message) text(text string) string {
	if msg.Method == "tools/call" {
		return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)
	}
	return fmt.Sprintf("%q", text)
}

// misbehave misbehaves as the mode says.
func (c *child) misbehave(msg *message) (status int, ended bool) {
	switch c.mode {
	case ExitsWithError:
		fmt.Fprint(os.Stderr, "first words\nlast words\n")
		return 3, true
	case Exits:
		return 0, true
	case Crashes:
		return complain(syscall.Kill(os.Getpid(), syscall.SIGKILL)), true
	case HalfLine:
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"half":`, msg.ID)
		return 1, true
	case ClosesStdout:
		if err := os.Stdout.Close(); err != nil {
			return complain(err), true
		}
		sleep()
	case ClosesStdin:
		if err := os.Stdin.Close(); err != nil {
			return complain(err), true
		}
		reply(msg, msg.text("closed"))
		sleep()
	case LeavesChild:
		return startHeir(false, 5)
	case LeavesStray:
		return startHeir(true, 0)
	case KeepsChild:
		if status, failed := startHeir(false, 0); status != 0 {
			return status, failed
		}
		reply(msg, msg.text("kept"))
	case KeepsDaemons:
		if err := exec.Command("sh", "-c", daemons).Run(); err != nil {
			return complain(err), true
		}
		reply(msg, msg.text("kept"))
	case WritesStderr:
		text, err := os.ReadFile(os.Getenv(StderrVariable))
		if err != nil {
			return complain(err), true
		}
		if _, err := os.Stderr.Write(text); err != nil {
			return complain(err), true
		}
		return 1, true
	case FloodsStderr:
		noise := bytes.Repeat([]byte("one of many lines of noise\n"), 1<<15)
		for written := 0; written < 40<<20; written += len(noise) {
			if _, err := os.Stderr.Write(noise); err != nil {
				return complain(err), true
			}
		}
		fmt.Fprintln(os.Stderr, "flooded")
		reply(msg, msg.text("flooded"))
	case Environment:
		env, err := json.Marshal(os.Environ())
		if err != nil {
			return complain(err), true
		}
		reply(msg, string(env))
	case AnswersTwice:
		reply(msg, msg.text("first"))
		reply(msg, msg.text("second"))
	case AnswersOthers:
		for _, id := range []string{`"` + strings.Trim(string(msg.ID), `"`) + `x"`, `987654321`, `null`, `{}`, string(msg.ID) + ".5"} {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, msg.text("other"))
		}
		reply(msg, msg.text("own"))
	case Garbage:
		fmt.Print(banner + strings.Repeat("y", 100_000) + "\n{\"jsonrpc\":\n")
		reply(msg, msg.text("own"))
	case Notifies:
		out := bufio.NewWriterSize(os.Stdout, 64<<10)
		for i := range FloodedNotifications {
			method := "notifications/tools/list_changed"
			if i%2 == 1 {
				method = "notifications/message"
			}
			fmt.Fprintf(out, `{"jsonrpc":"2.0","method":%q,"params":{"level":"info","data":%d}}`+"\n", method, i)
		}
		if err := out.Flush(); err != nil {
			return complain(err), true
		}
		reply(msg, msg.text("flooded"))
	case Ignores:
	default:
		reply(msg, msg.text("done"))
	}
	return 0, false
}

// daemons starts processes that leave the session and the process group; one ignores SIGTERM.
const daemons = `setsid sleep 61 & (setsid sh -c 'sleep 61 & sleep 61 &' &) ; (setsid sh -c 'trap "" TERM; sleep 61; sleep 61' &)`

// startHeir starts a process that keeps the output open and outlives this one. A stray one
// leaves the process group.
func startHeir(stray bool, exit int) (status int, ended bool) {
	heir := exec.Command(os.Args[0]) //nolint:gosec // the test binary
	heir.Env = append(os.Environ(), ModeVariable+"="+string(Sleeps))
	heir.Stdout, heir.Stderr = os.Stdout, os.Stderr
	heir.SysProcAttr = &syscall.SysProcAttr{Setsid: stray}
	if err := heir.Start(); err != nil {
		return complain(err), true
	}
	fmt.Printf(`{"jsonrpc":"2.0","method":"heir","params":[%d]}`+"\n", heir.Process.Pid)
	return exit, true
}

// writeAfterEOF writes after its input has ended and records that it has finished.
func writeAfterEOF() int {
	buf := make([]byte, 4<<10)
	for {
		if _, err := os.Stdin.Read(buf); err != nil {
			break
		}
	}
	line := `{"jsonrpc":"2.0","method":"late","params":["` + strings.Repeat("x", 1000) + `"]}` + "\n"
	for range 1000 {
		if _, err := os.Stdout.WriteString(line); err != nil {
			return complain(err)
		}
	}
	if err := os.WriteFile(os.Getenv(MarkerVariable), []byte("done"), 0o600); err != nil {
		return complain(err)
	}
	return 0
}
