package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// shelf is the value of asServer that makes the test binary the server behind the program.
const shelf = "shelf"

// stderrFile names a file that the server behind writes to its standard error.
const stderrFile = "SHELF_STDERR"

// viewText is a variable with text of the page of the server behind.
const viewText = "SHELF_VIEW"

func serveShelf() error {
	if path := os.Getenv(stderrFile); path != "" {
		text, _ := os.ReadFile(path) // a missing file has no lines
		_, _ = os.Stderr.Write(text)
	}
	return stdio.Serve(context.Background(), newShelf(), nil)
}

// shelfConfig is the configuration of the server behind.
func shelfConfig(env ...string) map[string]any {
	variables := map[string]string{asServer: shelf, "GORACE": "atexit_sleep_ms=0"}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	return map[string]any{"command": os.Args[0], "env": variables}
}

// A line is put at the end of a file, so that it can be counted how often that is done.
type line struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// newShelf is the server behind.
func newShelf() *server.Server {
	s := server.New(mcp.Implementation{Name: "shelf", Version: "1"}, nil)
	put := func(_ context.Context, _ *server.Request, in line) (string, error) {
		file, err := os.OpenFile(in.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		_, err = file.WriteString(in.Text + "\n")
		return "put", errors.Join(err, file.Close())
	}
	server.AddTool(s, server.Tool{Name: "look", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, put)
	server.AddTool(s, server.Tool{Name: "put"}, put)
	server.AddTool(s, server.Tool{Name: "drop"}, put)
	server.AddResource(s, server.Resource{URI: "shelf://top"}, func(context.Context, *server.Request) (string, error) {
		return "dust", nil
	})
	server.AddResource(s, server.Resource{URI: "ui://shelf/view", MIMEType: "text/html;profile=mcp-app"}, func(context.Context, *server.Request) (string, error) {
		return "<p>shelf" + os.Getenv(viewText), nil
	})
	server.AddTool(s, server.Tool{Name: "put_and_stay"}, func(ctx context.Context, r *server.Request, in line) (string, error) {
		said, err := put(ctx, r, in)
		<-ctx.Done()
		return said, err
	})
	return s
}

// policyText allows to look, denies to drop, and asks about the rest.
const policyText = `{"rules": [
	{"effect": "allow", "servers": ["shelf"], "names": ["look"]},
	{"effect": "deny", "names": ["drop"], "reason": "nothing is dropped here"},
	{"effect": "ask", "unless": [{"names": ["look"]}]}
]}`

// A program runs in this process; the servers behind it do not.
type program struct {
	address   string
	token     string // that was printed
	approvals string // likewise
	admin     string // likewise
	folder    string
	pid       int // of the process that launched has started
	said      *output
	end       func() error
}

// start runs the program with a shelf behind it. flags are added to the necessary flags.
func start(t *testing.T, flags ...string) *program {
	t.Helper()
	return startWith(t, strings.NewReader(""), flags...)
}

func startWith(t *testing.T, in io.Reader, flags ...string) *program {
	t.Helper()
	p := &program{folder: t.TempDir(), said: &output{}}
	p.run(t, in, append(p.flags(t), flags...))
	return p
}

// run runs the program until the end of the test.
func (p *program) run(t *testing.T, in io.Reader, line []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, line, in, io.Discard, p.said)
		p.said.close()
		ended <- err
	}()
	p.end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := p.end(); err != nil {
			t.Errorf("told to end, the program says %v", err)
		}
	})
	p.introduced(t, p.said.follow(t))
}

// flags are those that every program has.
func (p *program) flags(t *testing.T) []string {
	t.Helper()
	config := p.write(t, "mcp.json", encoded(t, map[string]any{"mcpServers": map[string]any{"shelf": shelfConfig()}}))
	return []string{"serve", "-config", config, "-http", "127.0.0.1:0", "-policy", p.write(t, "policy.json", policyText)}
}

// introduced reads the program's description of itself.
func (p *program) introduced(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	for p.address == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the program has ended: %s", p.said)
		}
		if found := regexp.MustCompile(`^serving .*http://([\d.:]+)/`).FindStringSubmatch(line); found != nil {
			p.address = found[1]
		}
		if found := regexp.MustCompile(`^clients .*Bearer (\w+)`).FindStringSubmatch(line); found != nil {
			p.token = found[1]
		}
		if found := regexp.MustCompile(`^admin .*token (\w+)`).FindStringSubmatch(line); found != nil {
			p.admin = found[1]
		}
		if found := regexp.MustCompile(`^approve .*token[ =](\w+)`).FindStringSubmatch(line); found != nil {
			p.approvals = found[1]
		}
	}
}

func (p *program) path(name string) string { return filepath.Join(p.folder, name) }

func (p *program) write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p.path(name)
}

// lines returns the lines of a file.
func (p *program) lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// do sends a request with a token, unless it is "", and returns the status and the body.
func (p *program) do(ctx context.Context, token, method, path, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.address+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
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

// connect opens an MCP session.
func (p *program) connect(t *testing.T, opts *client.Options) *client.Session {
	t.Helper()
	return p.connectAt(t, "/mcp", opts)
}

// connectAt is connect at a path.
func (p *program) connectAt(t *testing.T, path string, opts *client.Options) *client.Session {
	t.Helper()
	token := p.token // a session keeps its caller when p.token becomes that of another one
	dialer := streamable.Dial("http://"+p.address+path, &streamable.DialOptions{
		Header: func(_ context.Context, header http.Header) error {
			if token != "" {
				header.Set("Authorization", "Bearer "+token)
			}
			return nil
		},
	})
	session, err := client.Connect(t.Context(), dialer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// An output holds the output of a program. It can be read from the beginning while the program writes more.
type output struct {
	mu     sync.Mutex
	text   bytes.Buffer
	more   []chan struct{} // closed with the next piece
	closed bool
}

func (s *output) Write(piece []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
	return s.text.Write(piece)
}

func (s *output) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
}

func (s *output) wake() {
	for _, waiting := range s.more {
		close(waiting)
	}
	s.more = nil
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await returns the match of a pattern, when it has been written.
func (s *output) await(t *testing.T, pattern string) []string {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lines := bufio.NewReader(&follower{s, ctx, 0})
	for {
		line, err := lines.ReadString('\n')
		if match := expression.FindStringSubmatch(line); match != nil {
			return match
		}
		if err != nil {
			t.Fatalf("%s is not in:\n%s", pattern, s)
		}
	}
}

// follow reads from the beginning on.
func (s *output) follow(t *testing.T) *bufio.Reader {
	return bufio.NewReader(&follower{s, t.Context(), 0})
}

type follower struct {
	output *output
	ctx    context.Context
	at     int
}

func (f *follower) Read(p []byte) (int, error) {
	for {
		f.output.mu.Lock()
		n := copy(p, f.output.text.Bytes()[f.at:])
		f.at += n
		closed, more := f.output.closed, make(chan struct{})
		f.output.more = append(f.output.more, more)
		f.output.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, io.EOF
		}
		select {
		case <-more:
		case <-f.ctx.Done():
			return 0, context.Cause(f.ctx)
		}
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A frontend is one of the ways to call a tool: over MCP or over plain HTTP.
type frontend struct {
	name string
	call func(ctx context.Context, tool, arguments string) (answer string, err error)
}

// frontends returns all frontends. Any other result than the tool's own answer is an error.
func (p *program) frontends(t *testing.T) []frontend {
	t.Helper()
	post := func(path func(tool string) string, body string, judge func(status int, answer []byte) error) func(context.Context, string, string) (string, error) {
		return func(ctx context.Context, tool, arguments string) (string, error) {
			status, answer, err := p.do(ctx, p.token, http.MethodPost, path(tool), strings.NewReplacer("TOOL", tool, "ARGUMENTS", arguments).Replace(body))
			if err == nil {
				err = judge(status, answer)
			}
			return string(answer), err
		}
	}
	at := func(path string) func(string) string { return func(string) string { return path } }
	isOK := func(status int, answer []byte) error {
		if status != http.StatusOK {
			return fmt.Errorf("%d: %s", status, answer)
		}
		return nil
	}
	session := p.connect(t, &client.Options{NoTasks: true}) // it waits for the person on its connection
	return []frontend{
		{"mcp", func(ctx context.Context, tool, arguments string) (string, error) {
			result, err := session.CallTool(ctx, "shelf__"+tool, json.RawMessage(arguments), nil)
			if err == nil && result.Meta.Get(mcp.MetaRefusal) != nil {
				err = errors.New(result.Text())
			}
			if err != nil {
				return "", err
			}
			return encoded(t, result), nil
		}},
		{"rest", post(at("/api/v1/rest/tools/call"), `{"name":"shelf__TOOL","arguments":ARGUMENTS}`, isOK)},
		{"rest, a path for each tool", post(func(tool string) string { return "/api/v1/rest/tools/shelf__" + tool }, `ARGUMENTS`, isOK)},
		{"proxy", post(func(tool string) string { return "/api/v1/mcp/proxy/shelf/tools/" + tool }, `{"arguments":ARGUMENTS}`, func(status int, answer []byte) error {
			if status != http.StatusOK || !bytes.Contains(answer, []byte(`"success":true`)) {
				return fmt.Errorf("%d: %s", status, answer)
			}
			return nil
		})},
		{"run", post(at("/run"), `{"server_name":"shelf","server_params":{},"tool_name":"TOOL","tool_args":ARGUMENTS}`, func(status int, answer []byte) error {
			if status != http.StatusOK || !bytes.HasPrefix(answer, []byte(`{"result":`)) {
				return fmt.Errorf("%d: %s", status, answer)
			}
			return nil
		})},
	}
}
