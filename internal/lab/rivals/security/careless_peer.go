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
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge/toolserver"
)

// carelessPeer makes the mistakes that the cases look for.
func carelessPeer() *Peer {
	return &Peer{
		Name: "careless", serve: serveCareless, serveStdio: serveCarelessStdio, connect: connectCareless,
		connectCommand: connectCarelessCommand, login: loginCareless, gateway: carelessGateway{},
	}
}

// A carelessServer answers everybody with the answer to the last request with an id, runs tools
// without looking at their arguments, and keeps all that it gets.
type carelessServer struct {
	tools []tool
	mu    sync.Mutex
	kept  [][]byte
	marks map[string]string // the last mark by id
}

func newCareless(tools []tool) *carelessServer {
	return &carelessServer{tools: tools, marks: map[string]string{}}
}

func (s *carelessServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			http.Error(w, fmt.Sprint("panic: ", p), http.StatusInternalServerError)
		}
	}()
	w.Header().Set("Mcp-Session-Id", "1")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.answer(r.Context(), body)) // the client may be gone
}

func (s *carelessServer) answer(ctx context.Context, body []byte) []byte {
	s.mu.Lock()
	s.kept = append(s.kept, append(make([]byte, 0, 1<<10), body...))
	s.mu.Unlock()
	var message struct { // in any case, as encoding/json does
		ID     json.RawMessage
		Method string
		Params struct {
			Name      string
			Arguments map[string]any
			URI       *string
		}
	}
	if err := json.Unmarshal(body, &message); err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}`)
	}
	text := "unknown tool, but here you are: " + ran
	switch message.Method {
	case "initialize":
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"careless","version":"1"}}}`,
			message.ID, protocolVersion)
	case "resources/read":
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":%q,"text":"a private key"}]}}`, message.ID, *message.Params.URI)
	}
	if len(message.Params.Arguments) > 1000 {
		panic("too many arguments")
	}
	for _, t := range s.tools {
		if t.name != message.Params.Name {
			continue
		}
		if t.name == "match" {
			backtrack(ctx, fmt.Sprint(message.Params.Arguments["text"]))
		}
		if mark, ok := message.Params.Arguments["mark"].(string); ok {
			s.mu.Lock()
			s.marks[string(message.ID)] = mark
			s.mu.Unlock()
			time.Sleep(200 * time.Millisecond)
			s.mu.Lock()
			message.Params.Arguments["mark"] = s.marks[string(message.ID)]
			s.mu.Unlock()
		}
		said, err := t.run(ctx, message.Params.Arguments, func(string) {})
		if text = said; err != nil {
			text = err.Error()
		}
		if strings.Contains(text, "file") {
			text = "blocked: the text looks dangerous"
		}
	}
	result := textResult(text)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, message.ID, result)
}

// backtrack tries all ways to split a text, as a matcher of nested quantifiers does.
func backtrack(ctx context.Context, text string) bool {
	if ctx.Err() != nil {
		return false
	}
	for n := 1; n <= len(text); n++ {
		if strings.Trim(text[:n], "a") == "" && (text[n:] == "b" || backtrack(ctx, text[n:])) {
			return true
		}
	}
	return false
}

func serveCareless(tools []tool) (open, protected http.Handler, err error) {
	s := newCareless(tools)
	return s, s, nil
}

func serveCarelessStdio(ctx context.Context, tools []tool) error {
	s := newCareless(tools)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		fmt.Printf("%s\n", s.answer(ctx, line))
	}
}

// A carelessSession shortens texts, shows every form, answers for the model and loads schemas.
type carelessSession struct {
	url  string
	opts *clientOptions
}

func connectCareless(_ context.Context, url string, opts *clientOptions) (session, error) {
	return carelessSession{url, opts}, nil
}

func (s carelessSession) close() {}

var schemaURL = regexp.MustCompile(`"\$ref":"(http[^"]*)"`)

func (s carelessSession) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	_, listed, err := postJSON(ctx, s.url, "", request(1, "tools/list", "{}"))
	if err != nil {
		return "", err
	}
	for _, found := range schemaURL.FindAllStringSubmatch(listed, -1) {
		if res, err := http.Get(found[1]); err == nil {
			res.Body.Close()
		}
	}
	for name, value := range arguments {
		if text, ok := value.(string); ok {
			arguments[name] = text[:len(text)/2]
		}
	}
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return "", err
	}
	_, got, err := postJSON(ctx, s.url, "", request(2, "tools/call", string(params)))
	if err != nil {
		return "", err
	}
	if strings.Contains(got, "elicitation/create") && s.opts != nil && s.opts.asked != nil {
		s.opts.asked("a form")
	}
	if strings.Contains(got, "sampling/createMessage") {
		_, _, err := postJSON(ctx, s.url, "", `{"jsonrpc":"2.0","id":"ask","result":{"role":"assistant","model":"m","content":{"type":"text","text":"the key is 42"}}}`)
		return "", err
	}
	return got[:len(got)/2], nil
}

func connectCarelessCommand(ctx context.Context, path string, env []string) error {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(initialize + "\n")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Wait()
	if err == nil && !strings.Contains(line, protocolVersion) {
		err = errors.New("the server does not answer")
	}
	return err
}

var metadataURL = regexp.MustCompile(`resource_metadata="([^"]*)"`)

func loginCareless(_ context.Context, url, _ string) error {
	res, err := http.Post(url, "application/json", strings.NewReader(initialize))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	found := metadataURL.FindStringSubmatch(res.Header.Get("WWW-Authenticate"))
	if found == nil {
		return errors.New("the server demands nothing")
	}
	if res, err := http.Get(found[1]); err == nil {
		res.Body.Close()
	}
	return errors.New("there is no browser")
}

// A carelessGateway forwards everything.
type carelessGateway struct{}

func (carelessGateway) pinned(ctx context.Context, upstream string, _ *pinState) (string, error) {
	target, err := url.Parse(upstream)
	if err != nil {
		return "", err
	}
	return listen(ctx, "127.0.0.1", httputil.NewSingleHostReverseProxy(target))
}

func (carelessGateway) exposed(tool string) string { return tool }

func (carelessGateway) restricted(ctx context.Context, _ string) (string, error) {
	return listen(ctx, "127.0.0.1", newCareless(allTools()))
}

// approved accepts any token of an approver.
func (carelessGateway) approved(ctx context.Context) (url, approver, token string, err error) {
	given := make(chan bool, 1)
	s := newCareless(allTools())
	url, err = listen(ctx, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte("tools/call")) {
			select {
			case <-given:
			case <-time.After(2 * time.Second):
				http.Error(w, "no approval", http.StatusForbidden)
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(w, r)
	}))
	if err != nil {
		return "", "", "", err
	}
	approver, err = listen(ctx, "127.0.0.1", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { given <- true }))
	return url, approver, "token", err
}

// journal writes lines of text without a chain.
func (carelessGateway) journal(_ context.Context, path string, calls []journaled) ([]string, error) {
	var b strings.Builder
	var digests []string
	for _, c := range calls {
		fmt.Fprintf(&b, "CEF:0|careless|%s|%s\n", c.tool, c.argument)
		digests = append(digests, c.tool+c.argument)
	}
	return digests, os.WriteFile(path, []byte(b.String()), 0o600)
}

func (carelessGateway) verify(string) error { return nil }

func (carelessGateway) register(ctx context.Context) (url, operator string, err error) {
	return registerAt(ctx, &toolserver.Options{Launch: toolserver.LaunchAny})
}
