//go:build soak

package alerts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// asBehind makes the test binary the server behind the replicas. The value is the tool that it lacks, or "no".
const asBehind = "ALERTS_LACKS"

// A line is put at the end of a file.
type line struct {
	Path string `json:"path"`
}

// serveBehind serves standard input and output: put ends, stay does not, and crash ends the server.
func serveBehind(lacks string) error {
	s := server.New(mcp.Implementation{Name: "behind", Version: "1"}, nil)
	put := func(in line) (string, error) {
		file, err := os.OpenFile(in.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		defer file.Close()
		_, err = file.WriteString("put\n")
		return "put", err
	}
	for name, function := range map[string]func(ctx context.Context, in line) (string, error){
		"look":  func(context.Context, line) (string, error) { return "dust", nil },
		"put":   func(_ context.Context, in line) (string, error) { return put(in) },
		"crash": func(context.Context, line) (string, error) { os.Exit(3); return "", nil },
		"stay": func(ctx context.Context, in line) (string, error) {
			said, err := put(in)
			<-ctx.Done()
			return said, err
		},
	} {
		if name != lacks {
			server.AddTool(s, server.Tool{Name: name}, func(ctx context.Context, _ *server.Request, in line) (string, error) { return function(ctx, in) })
		}
	}
	return stdio.Serve(context.Background(), s, nil)
}

// policyText asks about put and stay.
const policyText = `{"rules": [
	{"effect": "allow", "names": ["look", "crash"]},
	{"effect": "ask", "unless": [{"names": ["look", "crash"]}]}
]}`

// A rig is a monitor, the replicas that it scrapes, and their callers.
type rig struct {
	*monitor
	t        *testing.T
	program  string // the path of dovetail
	folder   string
	store    *redis   // that the replicas share; nil if there is none
	scraper  string   // the key of Prometheus
	callers  []string // keys
	replicas map[string]*replica
}

// newRig returns a rig without replicas. withStore starts a store.
func newRig(t *testing.T, program string, withStore bool) *rig {
	t.Helper()
	r := &rig{monitor: newMonitor(t), t: t, program: program, folder: t.TempDir(), replicas: make(map[string]*replica)}
	r.write("policy.json", policyText)
	r.scraper = r.newKeys()
	if withStore {
		r.store = newRedis(t)
	}
	return r
}

// newKeys makes new keys for the callers and Prometheus, and returns that of Prometheus.
func (r *rig) newKeys() string {
	r.t.Helper()
	var keys, entries []string
	for _, name := range []string{"prometheus", "ann", "bob", "cyd"} {
		var stdout, stderr bytes.Buffer
		command := exec.CommandContext(r.t.Context(), r.program, "key", name)
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); err != nil {
			r.t.Fatalf("%v: %s", err, &stderr)
		}
		keys, entries = append(keys, strings.TrimSpace(stdout.String())), append(entries, stderr.String())
	}
	r.write("keys.json", `{"keys": [`+strings.Join(entries, ",")+`]}`)
	r.callers = keys[1:]
	return keys[0]
}

func (r *rig) path(name string) string { return filepath.Join(r.folder, name) }

func (r *rig) write(name, text string) string {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return r.path(name)
}

// behind returns the server behind in a configuration file. It lacks a tool.
func (r *rig) behind(command, lacks string) string {
	r.t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"behind": map[string]any{
		"command": command, "env": map[string]string{asBehind: lacks}, "dovetail": map[string]string{"auth": "shared"},
	}}})
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// A replica is a process of dovetail serve.
type replica struct {
	rig    *rig
	name   string
	flags  []string
	unread bool // what it logs is not read

	process   *exec.Cmd
	address   string
	approvals string // the token of approvers
	goOn      func() // reads the log
	ended     chan error
	log       *record
}

// A record is the text that a process has written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(piece []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(piece)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// start starts a replica with flags. It is scraped from now on.
func (r *rig) start(name string, flags ...string) *replica {
	r.t.Helper()
	p := r.newReplica(name, flags...)
	p.run()
	r.scrapes(name, p, r.scraper)
	return p
}

// newReplica returns a replica that does not run yet.
func (r *rig) newReplica(name string, flags ...string) *replica {
	r.t.Helper()
	config := r.path(name + ".json")
	if _, err := os.Stat(config); err != nil {
		r.write(name+".json", r.behind(os.Args[0], "no"))
	}
	flags = append([]string{"serve", "-config", config, "-http", "127.0.0.1:0", "-policy", r.path("policy.json"), "-keys", r.path("keys.json")}, flags...)
	if r.store != nil {
		flags = append(flags, "-store", r.store.url())
	}
	p := &replica{rig: r, name: name, flags: flags}
	r.replicas[name] = p
	return p
}

// run runs the process, and waits until it is ready.
func (p *replica) run() {
	t := p.rig.t
	t.Helper()
	command := exec.Command(p.rig.program, p.flags...)
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	reading, ended := make(chan struct{}), make(chan error, 1)
	if p.process == nil {
		t.Cleanup(func() {
			p.kill()
			if t.Failed() {
				t.Logf("the last process of %s has logged:\n%s", p.name, p.log)
			}
		})
	}
	p.process, p.log, p.ended, p.goOn = command, &record{}, ended, sync.OnceFunc(func() { close(reading) })
	lines := bufio.NewReader(io.TeeReader(said, p.log))
	for p.address, p.approvals = "", ""; p.address == ""; {
		text, err := lines.ReadString('\n')
		if err != nil {
			ended <- command.Wait()
			t.Fatalf("%s has ended: %s", p.name, p.log)
		}
		if found := regexp.MustCompile(`^serving .*?http://([\d.:]+)/`).FindStringSubmatch(text); found != nil {
			p.address = found[1]
		}
		if found := regexp.MustCompile(`^approve .*token[ =](\w+)`).FindStringSubmatch(text); found != nil {
			p.approvals = found[1]
		}
	}
	go func() {
		<-reading
		_, _ = io.Copy(io.Discard, lines)
		ended <- command.Wait()
	}()
	if !p.unread {
		p.goOn()
	}
	waittest.Until(t, p.name+" to be ready", func() bool {
		status, _, err := p.do(t.Context(), "", http.MethodGet, "/readyz", "")
		return err == nil && status == http.StatusOK
	})
}

func (p *replica) signal(signal syscall.Signal) {
	p.rig.t.Helper()
	if err := p.process.Process.Signal(signal); err != nil {
		p.rig.t.Fatalf("%s: %v", p.name, err)
	}
}

// kill kills the process, unless it has ended, and waits for its end.
func (p *replica) kill() {
	_ = p.process.Process.Kill()
	p.goOn()
	p.ended <- <-p.ended // kill may be called again
}

// terminate tells the process to end, and waits for its end. The exit status is another one than 0 if it has interrupted calls.
func (p *replica) terminate() {
	p.rig.t.Helper()
	p.signal(syscall.SIGTERM)
	p.ended <- waittest.Receive(p.rig.t, "the end of "+p.name, p.ended) // kill reads it again
}

// do sends a request with a token, unless it is "", and returns the status and the body. Each request has a connection of its own, since
// one that is kept open would be refused by a process that ends.
func (p *replica) do(ctx context.Context, token, method, path, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.address+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Close = true
	request.Header.Set("Accept", "application/json, text/event-stream, text/plain")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// call calls a tool over plain HTTP.
func (p *replica) call(ctx context.Context, tool string) (status int, err error) {
	status, _, err = p.do(ctx, p.rig.callers[0], http.MethodPost, "/api/v1/rest/tools/behind__"+tool, `{"path":"-"}`)
	return status, err
}

// begin makes a call of a caller that becomes a task. The caller leaves.
func (p *replica) begin(caller int, tool, file string) {
	t := p.rig.t
	t.Helper()
	session, err := client.Connect(t.Context(), streamable.Dial("http://"+p.address+"/mcp", &streamable.DialOptions{
		Header: func(_ context.Context, header http.Header) error {
			header.Set("Authorization", "Bearer "+p.rig.callers[caller])
			return nil
		},
	}), &client.Options{Era: client.Modern, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	tasks, failed := make(chan string, 1), make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, "behind__"+tool, line{p.rig.path(file)}, &client.CallOptions{OnTask: func(task *mcp.Task) { tasks <- task.TaskID }})
		failed <- err
	}()
	select {
	case <-tasks:
		leave()
		<-failed
	case err := <-failed:
		t.Fatalf("the call of %s is no task: %v", tool, err)
	}
}

// approve approves the calls of some tools, now and later, until stop is called. Without tools, it approves all calls.
func (p *replica) approve(tools ...string) (stop func()) {
	t := p.rig.t
	t.Helper()
	approver, err := channel.Dial(t.Context(), "ws://"+p.address+"/approval", func(ctx context.Context, prompt *approval.Prompt) {
		wanted := len(tools) == 0
		for _, tool := range tools {
			wanted = wanted || prompt.Tool == tool
		}
		if wanted {
			_ = prompt.Accept(ctx) // the request may have been withdrawn
		}
	}, &channel.ClientOptions{Token: p.approvals, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { approver.Close() })
	t.Cleanup(stop)
	return stop
}

// await waits for an event for at most two minutes: leases last 30 seconds, and a task begins at another replica 50 seconds after its own
// was killed.
func (p *replica) await(what string, happened func() bool) {
	t := p.rig.t
	t.Helper()
	const most = 2 * time.Minute
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(most); !happened(); {
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("waited %v for %s at %s", most, what, p.name)
		}
	}
}

// until waits until a metric has at least a value.
func (p *replica) until(least float64, name string, matching ...string) {
	p.rig.t.Helper()
	p.await(fmt.Sprintf("%s %v of at least %v", name, matching, least), func() bool {
		got, ok := p.value(name, matching...)
		return ok && got >= least
	})
}

// untilNoTasks waits until all tasks have ended.
func (p *replica) untilNoTasks() {
	p.rig.t.Helper()
	p.await("the end of the tasks", func() bool {
		open, ok := p.value("dovetail_tasks")
		return ok && open == 0
	})
}

// untilStayed waits until stay has begun.
func (r *rig) untilStayed(file string) {
	r.t.Helper()
	waittest.Until(r.t, "the begin of stay", func() bool {
		_, err := os.Stat(r.path(file))
		return err == nil
	})
}

// untilState waits until the server behind has a state.
func (p *replica) untilState(state string) {
	p.rig.t.Helper()
	p.until(1, "dovetail_server_state", "state", state)
}

// crash ends the server behind.
func (p *replica) crash() {
	p.rig.t.Helper()
	before, _ := p.value("dovetail_server_restarts_total")
	if _, err := p.call(p.rig.t.Context(), "crash"); err != nil {
		p.rig.t.Fatal(err)
	}
	p.until(before+1, "dovetail_server_restarts_total")
}

// initialize opens a session of 2025-11-25, which is stored, and returns the status.
func (p *replica) initialize() (int, error) {
	const request = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	status, answer, err := p.do(p.rig.t.Context(), p.rig.callers[0], http.MethodPost, "/mcp", request)
	if err != nil {
		return 0, fmt.Errorf("initialize: %w %s", err, answer)
	}
	return status, nil
}
