package shell

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
)

const (
	// interruptGrace is the time in which a command of a session may end after SIGINT. Then its
	// session is closed.
	interruptGrace = 5 * time.Second
	// interruptEvery is the interval of SIGINT until then.
	interruptEvery = 500 * time.Millisecond
	// maxDirectory is the length of a directory in a marker, in characters.
	maxDirectory = 4096
	// maxReport is the length of a status and a directory, in bytes.
	maxReport = 16 + 4*maxDirectory
)

// sessions is the service for shells that keep their directory and variables.
type sessions struct {
	shell *Shell
	limit int

	mu     sync.Mutex
	closed bool
	byName map[string]*session
}

type sessionOpenIn struct {
	_           server.ToolTag `destructive:"false" idempotent:"false" openWorld:"false" timeout:"30s" tags:"commands"`
	Name        string         `json:"name" jsonschema:"pattern=^[A-Za-z0-9_-]+$,maxLength=64"` // name for later calls: letters, digits, _ and -
	Credentials []string       `json:"credentials,omitempty" jsonschema:"maxItems=8"`           // names of credentials: each is an environment variable of the session
}

// A sessionState describes a session.
type sessionState struct {
	Name    string    `json:"name"`
	Running bool      `json:"running"` // a command is running
	Began   time.Time `json:"began"`
}

// SessionOpen starts a named shell in the workspace. Commands of session_run in it share a
// directory, variables and functions, so that cd and export affect later commands. The session
// ends with session_close or the server.
func (s *sessions) SessionOpen(_ context.Context, in sessionOpenIn) (sessionState, error) {
	if runtime.GOOS == "windows" {
		return sessionState{}, errors.New("this system has no sessions: use run_command")
	}
	command := s.shell.command(process.Shell(""))
	command.Args, command.Input = nil, true // the shell reads its commands from the standard input
	variables, err := s.shell.credentials.secrets(in.Credentials)
	if err != nil {
		return sessionState{}, err
	}
	// The transcript redacts them. command.Secrets would redact its markers too.
	command.Env = slices.Concat(command.Env, variables)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sessionState{}, process.ErrClosed
	}
	maps.DeleteFunc(s.byName, func(_ string, known *session) bool { return !known.shell.Running() })
	if s.byName[in.Name] != nil {
		return sessionState{}, fmt.Errorf("the session %q is open already", in.Name)
	}
	if len(s.byName) >= s.limit {
		return sessionState{}, fmt.Errorf("%d sessions are open: close one first", s.limit)
	}
	opened, err := s.start(in.Name, command, variables)
	if err != nil {
		return sessionState{}, err
	}
	if s.byName == nil {
		s.byName = make(map[string]*session)
	}
	s.byName[in.Name] = opened
	return opened.state(), nil
}

// start starts the shell of a session. variables are its credentials as "name=value".
func (s *sessions) start(name string, command *process.Command, variables []string) (*session, error) {
	var secrets []string
	for _, variable := range variables {
		_, value, _ := strings.Cut(variable, "=")
		secrets = append(secrets, value)
	}
	opened := &session{
		name: name, began: time.Now(), turn: make(chan struct{}, 1),
		transcript: newTranscript(s.shell.maxOutput, secrets),
	}
	command.Stdout, command.Stderr = opened.transcript, opened.transcript
	var err error
	if opened.shell, err = s.shell.guard.Start(command); err != nil {
		return nil, err
	}
	// Descriptor 9 is where the shell reports the ends of commands; they do not inherit it. Each
	// command is in a loop, which SIGINT leaves: a trap alone would continue the command. In a
	// function, break leaves only the loops of that function. The order matters: bash 5.2 hangs
	// if a trap returns from a function out of a loop.
	if _, err := opened.shell.WriteWithin(writeTime, []byte("exec 9>&1; trap 'break 99 2>/dev/null; return 130 2>/dev/null' INT\n")); err != nil {
		opened.shell.Stop()
		return nil, err
	}
	return opened, nil
}

type sessionRunIn struct {
	_       server.ToolTag `destructive:"true" idempotent:"false" openWorld:"true" tags:"commands"`
	Session string         `json:"session"`                                                             // name given to session_open
	Command string         `json:"command" jsonschema:"minLength=1,maxLength=100000"`                   // shell command
	Timeout float64        `json:"timeout,omitempty" jsonschema:"minimum=0.1,maximum=3600,default=120"` // seconds until the command is interrupted
}

// A sessionResult is the outcome of a command in a session.
type sessionResult struct {
	ExitCode  int    `json:"exit_code"`
	Output    string `json:"output"`              // of the command and, since the last call, of background processes
	Directory string `json:"directory,omitempty"` // current directory of the session
	Truncated bool   `json:"truncated"`           // the beginning of the output is missing
	TimedOut  bool   `json:"timed_out"`           // the command was interrupted
	Closed    bool   `json:"closed"`              // the session has ended
}

// SessionRun runs a command in an open session and waits for its end. After the timeout the
// command is interrupted, as with Ctrl+C, and the session stays open; it is closed only if the
// command goes on for five seconds more. A session runs one command at a time. Processes started
// with & continue until the session ends, except that a timeout also ends those that handle SIGINT:
// use run_background for servers. The command exit closes the session. Commands have no standard
// input.
func (s *sessions) SessionRun(ctx context.Context, r *server.Request, in sessionRunIn) (sessionResult, error) {
	if strings.ContainsRune(in.Command, 0) {
		return sessionResult{}, errors.New("command: expected a text without NUL")
	}
	ctx, end, err := s.shell.begin(ctx)
	if err != nil {
		return sessionResult{}, err
	}
	defer end()
	opened, err := s.find(in.Session)
	if err != nil {
		return sessionResult{}, err
	}
	select {
	case opened.turn <- struct{}{}:
		defer func() { <-opened.turn }()
	default:
		return sessionResult{}, fmt.Errorf("the session %q still runs a command: wait for its end, or use another session", in.Session)
	}
	timeout, cancel := context.WithTimeout(ctx, time.Duration(in.Timeout*float64(time.Second)))
	defer cancel()
	result, err := opened.run(timeout, in.Command, progressOf(timeout, r))
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the caller has cancelled the call, or the shell is closed
	}
	return result, err
}

type sessionListIn struct {
	_ server.ToolTag `readOnly:"true" openWorld:"false" tags:"commands"`
}

// A sessionList lists the open sessions.
type sessionList struct {
	Sessions []sessionState `json:"sessions"`
}

// SessionList lists the open sessions by name.
func (s *sessions) SessionList(context.Context, sessionListIn) (sessionList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := sessionList{[]sessionState{}}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if known := s.byName[name]; known.shell.Running() {
			list.Sessions = append(list.Sessions, known.state())
		}
	}
	return list, nil
}

type sessionCloseIn struct {
	_       server.ToolTag `destructive:"true" idempotent:"false" openWorld:"false" timeout:"20s" tags:"commands"`
	Session string         `json:"session"` // name given to session_open
}

// SessionClose ends a session and kills all its processes.
func (s *sessions) SessionClose(_ context.Context, in sessionCloseIn) (string, error) {
	known, err := s.find(in.Session)
	if err != nil {
		return "", err
	}
	known.shell.Stop()
	return "Closed the session " + in.Session, nil
}

// find returns an open session.
func (s *sessions) find(name string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byName[name]; known != nil && known.shell.Running() {
		return known, nil
	}
	return nil, fmt.Errorf("there is no open session %.64q: open it with session_open", name)
}

// close ends all sessions. Later calls of session_open fail.
func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Values(s.byName))
	s.mu.Unlock()
	var stopping sync.WaitGroup
	for _, known := range open {
		stopping.Go(func() { known.shell.Stop() })
	}
	stopping.Wait()
}

// A session is a shell that runs one command after the other.
type session struct {
	name       string
	began      time.Time
	turn       chan struct{} // has an element while a command runs
	shell      *process.Process
	transcript *transcript
	status     int // of the last command
}

func (s *session) state() sessionState {
	return sessionState{Name: s.name, Running: len(s.turn) > 0, Began: s.began.UTC().Truncate(time.Second)}
}

// run runs a command. When ctx ends, it interrupts the command, and closes the session if that has
// no effect. The caller must hold s.turn.
func (s *session) run(ctx context.Context, command string, report func(written int64, last []byte)) (sessionResult, error) {
	if _, err := s.shell.WriteWithin(writeTime, s.transcript.script(command, s.status)); err != nil {
		s.shell.Stop() // it may have read a part of the script
		return sessionResult{}, err
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var seen int64
	var result sessionResult
	var again, kill <-chan time.Time
	for expired := ctx.Done(); ; {
		select {
		case end := <-s.transcript.ends:
			s.status = end.status
			return end.result(result), nil
		case <-s.shell.Done():
			result.Closed = true
			return s.transcript.last(s.shell.Stop().Code).result(result), nil
		case <-tick.C:
			if last, written, _ := s.transcript.current().Since(seen); len(last) > 0 {
				seen = written
				report(written, last)
			}
		case <-expired:
			expired = nil
			select {
			case end := <-s.transcript.ends: // the command ended with the timeout
				s.status = end.status
				return end.result(result), nil
			default:
			}
			repeat := time.NewTicker(interruptEvery)
			defer repeat.Stop()
			again, kill = repeat.C, time.After(interruptGrace)
			result.TimedOut = true
			s.shell.Interrupt()
		case <-again:
			// The shell may not have begun the command before, or has left one function of several.
			s.shell.Interrupt()
		case <-kill:
			s.shell.Stop()
		}
	}
}

// A transcript is the output of a session. The shell writes a marker at the end of each command. It
// contains a random token, so that no output looks like a marker by chance. A command can find out
// its token, for example in a DEBUG trap, and end its own result early. Each command has another
// token and one end, so this changes no result of other commands.
type transcript struct {
	ends    chan commandEnd
	secrets []string // values that the outputs and directories must not contain

	mu sync.Mutex
	// marker begins the marker of the current command; it is empty if there is none. A letter
	// follows NUL, because printf reads digits after \0 as a part of the number. The exit status,
	// the directory and NUL follow.
	marker   string
	output   *process.Output           // of the current command
	redacted *peertext.RedactingWriter // writes to output
	held     []byte                    // the end of the output, which may belong to a marker
}

// A commandEnd is the end of a command.
type commandEnd struct {
	status    int
	directory string
	output    *process.Output
}

func newTranscript(maxOutput int, secrets []string) *transcript {
	t := &transcript{ends: make(chan commandEnd, 1), secrets: secrets}
	t.begin(maxOutput)
	return t
}

// begin begins the output of a command.
func (t *transcript) begin(maxOutput int) {
	t.output = &process.Output{Max: maxOutput}
	t.redacted = peertext.NewRedactingWriter(t.output, t.secrets)
}

// script returns the text with which a shell runs a command and writes the marker. The command
// sees status as $?.
func (t *transcript) script(command string, status int) []byte {
	marker := "end " + rand.Text() + " "
	t.mu.Lock()
	t.marker = "\x00" + marker
	t.mu.Unlock()
	quoted := "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	// Without "command", a syntax error would end some shells (POSIX.1-2024, section 2.8.1).
	// A failure in the words of "for" sets $? and, after "set -e", does not end the shell.
	return []byte("for _ in 1$(exit " + strconv.Itoa(status) + "); do command eval " + quoted + "; done </dev/null 9>&-\n" +
		`{ command printf '\0` + marker + `%d %.` + strconv.Itoa(maxDirectory) + `s\0' "$?" "${PWD-}" >&9; } 2>/dev/null` + "\n")
}

// Write adds output of the shell. It never fails.
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := append(t.held, p...)
	for t.marker != "" {
		i := bytes.Index(text, []byte(t.marker))
		if i < 0 {
			break
		}
		after := i + len(t.marker)
		report, rest, complete := bytes.Cut(text[after:], []byte{0})
		if !complete && len(report) <= maxReport {
			break
		}
		status, directory, _ := strings.Cut(string(report), " ")
		code, err := strconv.Atoi(status)
		if !complete || len(report) > maxReport || err != nil { // written by the command
			_, _ = t.redacted.Write(text[:after]) // never fails
			text = text[after:]
			continue
		}
		_, _ = t.redacted.Write(text[:i])
		t.end(code, directory)
		text = rest
	}
	keep := len(text)
	if i := bytes.Index(text, []byte(t.marker)); t.marker != "" && i >= 0 {
		keep = i
	} else if i := bytes.LastIndexByte(text, 0); i >= 0 && strings.HasPrefix(t.marker, string(text[i:])) {
		keep = i
	}
	_, _ = t.redacted.Write(text[:keep])
	t.held = bytes.Clone(text[keep:])
	return len(p), nil
}

// end reports the end of the current command. What follows belongs to the next command.
func (t *transcript) end(status int, directory string) {
	t.marker = ""
	_ = t.redacted.Close() // never fails
	var shown bytes.Buffer
	redacted := peertext.NewRedactingWriter(&shown, t.secrets)
	_, _ = redacted.Write([]byte(directory)) // never fails
	_ = redacted.Close()
	select {
	case t.ends <- commandEnd{status, shown.String(), t.output}:
		t.begin(t.output.Max)
	default: // impossible: the shell runs one command after the other
	}
}

// current returns the output of the current command.
func (t *transcript) current() *process.Output {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.output
}

// last returns the end of a command with which the shell has ended.
func (t *transcript) last(status int) commandEnd {
	select {
	case end := <-t.ends:
		return end
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = t.redacted.Close() // never fails
		return commandEnd{status: status, output: t.output}
	}
}

// result completes the result of a command.
func (e commandEnd) result(r sessionResult) sessionResult {
	r.ExitCode, r.Output, r.Directory = e.status, e.output.Text(), strings.ToValidUTF8(e.directory, "\uFFFD")
	r.Truncated = e.output.Written() > int64(e.output.Max)
	return r
}
