package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestProxyTranscripts sends recorded requests of clients of the original proxy over a socket,
// and compares the responses and the arguments that the server received. It adds the host, a
// token and the length of the body where a request has none.
func TestProxyTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/proxy/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	var called callLog
	r := &rig{token: aToken}
	r.bridge = frontendtest.Bridge(t, frontendtest.To("github", newGitHub(&called)))
	skills := func(_ context.Context, name string, _ json.RawMessage) (json.RawMessage, error) {
		if name == "skills__list_skills" {
			return json.RawMessage(`[{"name":"jokes"}]`), nil
		}
		return nil, errors.New("Unknown skill tool: " + name)
	}
	r.serve(t, gateway.Options{}, operator{pseudo: map[string]gateway.ToolFunc{"skills": skills}})
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script := sectionsOf(string(text))
			got := r.exchange(t, script["request"])
			if diff := cmp.Diff(strings.TrimSuffix(script["response"], "\n"), got); diff != "" {
				t.Errorf("the answer is another (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.TrimSuffix(script["called"], "\n"), called.take()); diff != "" {
				t.Errorf("the arguments are others (-want +got):\n%s", diff)
			}
		})
	}
}

// callLog stores the arguments of calls.
type callLog struct {
	mu   sync.Mutex
	text []string
}

func (l *callLog) add(arguments json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(arguments))
}

func (l *callLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.text = nil }()
	return strings.Join(l.text, "\n")
}

func newGitHub(called *callLog) *server.Server {
	s := server.New(mcp.Implementation{Name: "github", Version: "1"}, &server.Options{RegistrationOrder: true, Logger: frontendtest.Quiet()})
	add := func(name, description, result string, err error) {
		tool := server.Tool{Name: name, Description: description, InputSchema: frontendtest.OpenSchema}
		server.AddRawTool(s, tool, func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			called.add(arguments)
			return mcp.Raw(result), err
		})
	}
	add("star_repo", "Stars a repository.", `{"content":[{"type":"text","text":"starred datalayer/ui"},{"type":"text","text":"thank you"}]}`, nil)
	add("delete_repo", "", `{"content":[{"type":"text","text":"you may not"}],"isError":true}`, nil)
	add("avatar", "", `{"content":[{"type":"image","data":"AAEC","mimeType":"image/png"}]}`, nil)
	add("break", "", "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "it is broken"})
	return s
}

var sectionMark = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// sectionsOf splits a text in the txtar format of Go's own tests.
func sectionsOf(text string) map[string]string {
	sections := make(map[string]string)
	marks := sectionMark.FindAllStringSubmatchIndex(text, -1)
	for i, mark := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		sections[text[mark[2]:mark[3]]] = text[mark[1]:end]
	}
	return sections
}

// exchange sends a request with the line breaks of HTTP, and returns the status line, the type
// and the body of the response.
func (r *rig) exchange(t *testing.T, request string) string {
	t.Helper()
	head, body, _ := strings.Cut(request, "\n\n")
	added := "Host: " + strings.TrimPrefix(r.url, "http://")
	if !strings.Contains(head, "\nAuthorization:") {
		added += "\nAuthorization: Bearer " + r.token
	}
	if strings.Contains(head, "Transfer-Encoding: chunked") {
		body = strings.ReplaceAll(body, "\n", "\r\n") + "\r\n"
	} else if body = strings.TrimSuffix(body, "\n"); body != "" {
		added += fmt.Sprintf("\nContent-Length: %d", len(body))
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, strings.ReplaceAll(head+"\n"+added, "\n", "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s\nContent-Type: %s\n\n%s", response.Proto, response.Status, response.Header.Get("Content-Type"), content)
}
