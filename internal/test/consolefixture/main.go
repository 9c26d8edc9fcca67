// Consolefixture serves a bridge with one server, an MCP endpoint and the console, and a server that demands a login, for the tests of the page in a browser.
// .ci/browser runs it. It prints its addresses and tokens as one JSON object, and ends when its input ends. A line of its
// input that begins with the word build has the state of a build that the console shows, and the line cut breaks the connections
// to pages.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const rules = `{"rules": [
	{"name": "no-deletes", "effect": "deny", "names": ["delete"], "reason": "nobody deletes here"},
	{"name": "changes", "effect": "ask", "names": ["write"], "reason": "a person approves every change"},
	{"name": "money", "effect": "ask", "names": ["pay"], "reason": "money leaves the account"},
	{"name": "else", "effect": "allow"}
]}`

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "the `address` to listen at")
	token := flag.String("token", "", "the `token` of operators; by default a random one")
	files := flag.String("files", "", "connect to the server over HTTP, with its messages: `modern` or legacy")
	issuer := flag.String("issuer", "", "serve files at /guarded too, to callers with a token of this authorization server, at a `URL`")
	flag.Parse()
	if err := run(*addr, *token, *files, *issuer); err != nil {
		log.Fatal(err)
	}
}

func run(addr, token, files, issuer string) error {
	parsed, err := policy.Parse([]byte(rules))
	if err != nil {
		return err
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	record := console.NewRecorder(&console.RecorderOptions{Bodies: true})
	record.Hide("secret-of-the-configuration")
	asking := &approval.Options{Logger: quiet}
	record.ObserveApproval(asking)
	pages, err := channel.New(&channel.Options{Token: token, Logger: quiet})
	if err != nil {
		return err
	}
	defer pages.Close()
	person := approval.ApproverFunc(func(ctx context.Context, request *approval.Request) (approval.Answer, error) {
		if request.Tool == "pay" {
			return pages.Approve(ctx, request)
		}
		select {
		case <-time.After(5 * time.Second):
			return approval.Answer{Approved: true, By: "ada"}, nil
		case <-ctx.Done():
			return approval.Answer{}, ctx.Err()
		}
	})
	upstream := bridge.Config{Alias: "files", Dialer: transport.Pipe(newFiles()), ProxyOptions: bridge.ProxyOptions{Logger: slog.New(record.LogHandler(quiet.Handler())), Launch: "/usr/bin/files /srv/www"}}
	if files != "" {
		upstream.Era = map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy}[files]
		behind := streamable.Handler(newFiles(), &streamable.Options{Logger: quiet})
		defer behind.Close()
		web := httptest.NewServer(behind)
		defer web.Close()
		dial := &streamable.DialOptions{}
		record.TraceServers(&dial.Conn)
		upstream.Dialer = streamable.Dial(web.URL, dial)
	}
	record.ObserveUpstream(&upstream)
	fmt.Fprintln(record.Stderr("files", nil), "files: serving /srv/www")
	servers, err := bridge.New(&bridge.Options{}, upstream)
	if err != nil {
		return err
	}
	options := &server.Options{Logger: quiet, Guards: []mcp.Guard{approval.Guard(compiled, person, asking)}}
	record.ObserveServer(options)
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, options)
	if err := s.Mount(servers, nil); err != nil {
		return err
	}
	page, err := console.New(s, servers, &console.Options{Recorder: record, Token: pages.Token(), Channel: "/approval", Logger: quiet, Policy: func() *console.Policy {
		return &console.Policy{Compiled: compiled, Text: []byte(rules), File: "policy.json"}
	}})
	if err != nil {
		return err
	}
	defer page.Close()
	serving := &streamable.Options{Logger: quiet}
	record.TraceClients(&serving.Conn)
	endpoint := streamable.Handler(s, serving)
	defer endpoint.Close()
	mux := http.NewServeMux()
	mux.Handle("/console/", page)
	mux.Handle("/approval", pages)
	mux.Handle("/mcp", endpoint)
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	guarded := fmt.Sprintf("http://%s/guarded", listener.Addr())
	if issuer != "" {
		protected, err := protect(guarded, issuer)
		if err != nil {
			return err
		}
		mux.Handle("/guarded", protected)
		mux.Handle("/.well-known/", protected)
	}
	var open sockets
	web := &http.Server{Handler: mux, ConnState: open.add, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	err = json.NewEncoder(os.Stdout).Encode(map[string]string{
		"url": fmt.Sprintf("http://%s/console/", listener.Addr()), "token": page.Token(), "viewer": page.ViewerToken(), "mcp": fmt.Sprintf("http://%s/mcp", listener.Addr()), "guarded": guarded,
	})
	for lines := bufio.NewScanner(os.Stdin); err == nil && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "build "); ok {
			var build console.Build
			err = json.Unmarshal([]byte(text), &build)
			page.ShowBuild(build)
		}
		if lines.Text() == "cut" {
			open.cut()
		}
	}
	err = errors.Join(err, web.Close())
	<-served //nolint:errcheck // it was closed
	return err
}

// protect returns a server of files for callers with a token of an authorization server.
func protect(resource, issuer string) (http.Handler, error) {
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, AllowLoopback: true})
	if err != nil {
		return nil, err
	}
	served := streamable.Handler(newFiles(), &streamable.Options{Logger: slog.New(slog.DiscardHandler)})
	return oauth.Protect(served, &oauth.ProtectOptions{Resource: resource, AuthorizationServers: []string{issuer}, Verifier: verifier, Scopes: []string{"notes"}})
}

// sockets are the connections that have become WebSockets.
type sockets struct {
	mu   sync.Mutex
	open []net.Conn
}

func (s *sockets) add(c net.Conn, state http.ConnState) {
	if state == http.StateHijacked {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = append(s.open, c)
	}
}

func (s *sockets) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close() // it may have ended
	}
	s.open = nil
}

type input struct {
	Text string `json:"text,omitempty"`
	N    int    `json:"n,omitempty" jsonschema:"how many, or how many milliseconds"`

	Pause int `json:"pause,omitempty" jsonschema:"milliseconds after each"`
}

// newFiles returns a server whose tools do what their names say.
func newFiles() *server.Server {
	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"},"price":{"type":"number"},"text":{"type":"string"}}}`)
	for _, name := range []string{"echo", "pay"} {
		server.AddRawTool(s, server.Tool{Name: name, Description: "Returns its arguments.", InputSchema: schema}, func(_ context.Context, _ *server.Request, in json.RawMessage) (mcp.Result, error) {
			return mcp.Raw(`{"content":[{"type":"text","text":"done"}],"structuredContent":` + string(in) + `}`), nil
		})
	}
	add := func(name string, f func(ctx context.Context, r *server.Request, in input) (string, error)) {
		server.AddTool(s, server.Tool{Name: name, TextOnly: true}, f)
	}
	add("slow", func(ctx context.Context, _ *server.Request, in input) (string, error) {
		began := time.Now()
		select {
		case <-time.After(time.Duration(in.N) * time.Millisecond):
			return fmt.Sprint(time.Since(began).Microseconds()), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	add("flood", func(ctx context.Context, r *server.Request, in input) (string, error) {
		for i := range in.N {
			if err := r.Progress(ctx, float64(i+1), float64(in.N), fmt.Sprintf("page %d", i)); err != nil {
				return "", err
			}
			<-time.After(time.Duration(in.Pause) * time.Millisecond)
		}
		return strings.Repeat("flood ", 500_000), nil
	})
	add("fail", func(context.Context, *server.Request, input) (string, error) { return "", errors.New("no such file") })
	for _, name := range []string{"write", "delete", "export_the_quarterly_report_of_departments_as_sheet"} {
		add(name, func(context.Context, *server.Request, input) (string, error) { return "done", nil })
	}
	return s
}
