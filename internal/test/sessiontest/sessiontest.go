package sessiontest

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/memnet"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// URL is the URL of each server.
const URL = "http://sessions.test/mcp"

// A Server has sessions and the tools "work", "read" (read-only), and "repeat" (idempotent), which count their calls. Its
// fields must not be changed while requests are made.
type Server struct {
	// Report answers a request of a session that the server does not know.
	Report func(w http.ResponseWriter, r *Request)
	// Discover, if set, answers the request for the server's versions. By default it is refused with status 400.
	Discover func(w http.ResponseWriter, r *Request)
	// Refused is a tool whose calls are answered with Report in each session.
	Refused string
	// LosesRefused says that such a call ends all sessions.
	LosesRefused bool
	// Stream, if set, answers GET. By default the server has no stream of a session.
	Stream func(w http.ResponseWriter, r *Request)

	t       testing.TB
	network *memnet.Network

	mu       sync.Mutex
	opened   int
	known    map[string]bool
	executed map[string]int
	log      []string
	stopped  bool // no session is opened
	dying    bool // the next call of a tool is executed and ends the sessions
}

// A Request is a request to a server.
type Request struct {
	*http.Request
	// ID is the id of the message as JSON, "" for none.
	ID string
	// Method is the method of the message, "" for none.
	Method string
	// Session is the id of the session.
	Session string

	message *jsonrpc.Request
}

// New returns a server that runs until the test ends. In a bubble of testing/synctest, its network has virtual time.
func New(t testing.TB, report func(w http.ResponseWriter, r *Request)) *Server {
	s := &Server{Report: report, t: t, network: memnet.New(), known: make(map[string]bool), executed: make(map[string]int)}
	web := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(s.network) // until Close
	}()
	t.Cleanup(func() {
		web.Close()
		<-served
	})
	return s
}

// Client returns a client of the server's network.
func (s *Server) Client() *http.Client {
	network := &http.Transport{DialContext: s.network.DialContext, DisableCompression: true}
	s.t.Cleanup(network.CloseIdleConnections)
	return &http.Client{Transport: network}
}

// Lose makes the server forget its sessions.
func (s *Server) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// LoseAfterCall makes the server execute the next call of a tool, and then forget its sessions and answer the call with Report.
func (s *Server) LoseAfterCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dying = true
}

// Stop makes the server forget its sessions and open no other.
func (s *Server) Stop() {
	s.Lose()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// Executed returns how often a tool was executed.
func (s *Server) Executed(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executed[tool]
}

// Opened returns how many sessions were opened and not ended by the client.
func (s *Server) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Log returns the requests, each as the method of its message or as its HTTP method.
func (s *Server) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

const tools = `{"tools":[
	{"name":"work","inputSchema":{"type":"object"}},
	{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
	{"name":"repeat","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}]}`

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return
	}
	r := &Request{Request: hr, Session: hr.Header.Get("Mcp-Session-Id")}
	if msg, err := jsonrpc.Decode(body); err == nil {
		if r.message, _ = msg.(*jsonrpc.Request); r.message != nil {
			r.Method = r.message.Method
			if !r.message.IsNotification() {
				r.ID = r.message.ID.String()
			}
		}
	}
	if r.Method == "server/discover" {
		if s.Discover != nil {
			s.Discover(w, r)
			return
		}
		http.Error(w, "Bad Request: the server is not modern", http.StatusBadRequest)
		return
	}
	if r.Method == "initialize" {
		id := s.open()
		if id == "" {
			http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Mcp-Session-Id", id)
		r.Answer(w, `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sessions","version":"1"}}`)
		return
	}
	if !s.knows(r) {
		s.Report(w, r)
		return
	}
	switch {
	case r.Request.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Request.Method == http.MethodGet && s.Stream != nil:
		s.Stream(w, r)
	case r.Request.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.ID == "":
		w.WriteHeader(http.StatusAccepted)
	case r.Method == "tools/list":
		r.Answer(w, `"result":`+strings.ReplaceAll(tools, "\n", ""))
	case r.Method == "tools/call":
		r.Answer(w, `"result":{"content":[{"type":"text","text":"done"}]}`)
	default:
		r.Answer(w, `"result":{}`)
	}
}

func (s *Server) open() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ""
	}
	s.opened++
	id := fmt.Sprintf("session~%d", s.opened)
	s.log = append(s.log, "initialize")
	s.known[id] = true
	return id
}

// knows reports whether a request is in a session that the server knows, and records the request.
func (s *Server) knows(r *Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == "" {
		s.log = append(s.log, r.Request.Method)
	} else {
		s.log = append(s.log, r.Method)
	}
	known := s.known[r.Session]
	switch {
	case r.Request.Method == http.MethodDelete && known:
		delete(s.known, r.Session)
		s.opened--
	case r.Method == "tools/call" && r.Argument("name") == s.Refused:
		if s.LosesRefused {
			clear(s.known)
		}
		return false
	case r.Method == "tools/call" && known:
		s.executed[r.Argument("name")]++
		if s.dying {
			s.dying = false
			clear(s.known)
			return false
		}
	}
	return known
}

// Argument returns a member of the params that is text.
func (r *Request) Argument(name string) string {
	return strings.Trim(string(r.message.Member(name)), `"`)
}

// Answer answers a call with the result or error, as a member. If the call wants progress, the answer is a stream with progress.
func (r *Request) Answer(w http.ResponseWriter, outcome string) {
	text := `{"jsonrpc":"2.0","id":` + r.ID + `,` + outcome + `}`
	token := r.message.Member("_meta", "progressToken")
	if token == nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", token)
	w.(http.Flusher).Flush()
	fmt.Fprintf(w, "data: %s\n\n", text)
}

// A Loss is a form in which a server reports that it does not know a session.
type Loss struct {
	// Name describes the form.
	Name string
	// Status is the HTTP status.
	Status int
	// IsUsual says that servers in common use report a loss in this form.
	IsUsual bool
	// IsRefused says that the server did not execute the message.
	IsRefused bool
	// Report answers a request.
	Report func(w http.ResponseWriter, r *Request)
}

// UsualLosses returns the [Losses] of servers in common use.
func UsualLosses() []Loss {
	return slices.DeleteFunc(Losses(), func(loss Loss) bool { return !loss.IsUsual })
}

// Losses returns the forms in which servers report an unknown session.
func Losses() (losses []Loss) {
	bodies := []struct {
		name, text string
		isNamed    bool
		isUsual    bool
	}{
		{"the id of the call", `{"jsonrpc":"2.0","id":{id},"error":{"code":-32001,"message":"Session not found"}}`, true, true},
		{"the id null", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`, true, true},
		{"no id", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid mcp-session-id"}}`, true, false},
		{"another id", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"SESSION EXPIRED"}}`, true, false},
		{"not initialized", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`, true, false},
		{"text", `No transport found for sessionId`, true, true},
		{"the session's id", `unknown: {session}`, true, false},
		{"other JSON", `{"error":"session_not_found","status":"failed"}`, true, false},
		{"a page", `<html><body><h1>An error occurred</h1></body></html>`, false, false},
		{"an error without a name", `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Internal server error"}}`, false, false},
		{"nothing", ``, false, true},
	}
	unusual := []int{409, 412, 419, 440, 501, 502, 504}
	for _, status := range slices.Concat([]int{400, 401, 403, 404, 410, 422, 500, 503}, unusual) {
		for _, body := range bodies {
			losses = append(losses, Loss{
				Name: fmt.Sprintf("%d with %s", status, body.name), Status: status, IsUsual: body.isUsual && !slices.Contains(unusual, status),
				IsRefused: status == 404 || body.isNamed && (status == 400 || status == 410 || status == 422),
				Report: func(w http.ResponseWriter, r *Request) {
					id := r.ID
					if id == "" {
						id = "null"
					}
					if strings.HasPrefix(body.text, "{") {
						w.Header().Set("Content-Type", "application/json")
					}
					w.WriteHeader(status)
					_, _ = io.WriteString(w, strings.NewReplacer("{id}", id, "{session}", r.Session).Replace(body.text))
				},
			})
		}
	}
	for name, outcome := range map[string]string{
		"-32001":       `"error":{"code":-32001,"message":"not found"}`,
		"another code": `"error":{"code":-32000,"message":"Session not found"}`,
	} {
		losses = append(losses, Loss{Name: "200 with " + name, Status: 200, IsUsual: true, Report: func(w http.ResponseWriter, r *Request) {
			if r.ID == "" {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			r.Answer(w, outcome)
		}})
	}
	return losses
}

// NewRequest returns a request to another server, for [Loss].Report.
func NewRequest(r *http.Request, id string, message *jsonrpc.Request) *Request {
	return &Request{Request: r, ID: id, Method: message.Method, Session: r.Header.Get("Mcp-Session-Id"), message: message}
}
