package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const protocolVersion = "2025-11-25"

// A caller sends requests as bytes.
type caller struct {
	url, token, session string
	web                 *http.Client
}

// A reply is the status and the body of a response.
type reply struct {
	status int
	text   string
	header http.Header
}

// refused reports that the reply is an error of HTTP or JSON-RPC, or a result with isError.
func (r reply) refused() bool {
	return r.status >= 400 || strings.Contains(r.text, `"error":`) || strings.Contains(r.text, `"isError":true`)
}

// web returns a client with connections of its own.
func newWeb() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + protocolVersion +
	`","capabilities":{},"clientInfo":{"name":"attacker","version":"1"}}}`

// dial opens a session. Close it.
func dial(ctx context.Context, url, token string) (*caller, error) {
	c := &caller{url: url, token: token, web: newWeb()}
	got, err := c.post(ctx, initialize)
	if err != nil {
		return nil, err
	}
	if got.status != http.StatusOK {
		return nil, fmt.Errorf("initialize has the status %d: %.200s", got.status, got.text)
	}
	c.session = got.header.Get("Mcp-Session-Id")
	_, err = c.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, err
}

func (c *caller) close() { c.web.CloseIdleConnections() }

func (c *caller) post(ctx context.Context, body string) (reply, error) {
	return c.send(ctx, strings.NewReader(body))
}

func (c *caller) send(ctx context.Context, body io.Reader) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", protocolVersion)
	}
	res, err := c.web.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return reply{res.StatusCode, string(text), res.Header}, err
}

// request returns a request with an id.
func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

// call calls a tool with arguments in JSON.
func (c *caller) call(ctx context.Context, tool, arguments string) (reply, error) {
	name, err := json.Marshal(tool)
	if err != nil {
		return reply{}, err
	}
	return c.post(ctx, request(1, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":%s}`, name, arguments)))
}

// get returns a number that a server process reports.
func get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	web := newWeb()
	defer web.CloseIdleConnections()
	res, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// listen serves a handler at a socket until ctx ends, and returns its URL. host is an address
// of this machine.
func listen(ctx context.Context, host string, handler http.Handler) (string, error) {
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { server.Close() })
	return "http://" + listener.Addr().String(), nil
}

// A hostileServer answers what its fields say.
type hostileServer struct {
	// tools is a JSON array.
	tools string
	// result is the result of a call, in JSON.
	result string
	// ask is a request that the server makes before it answers a call, without its id. method and params.
	ask string
	// called gets the parameters of calls, and answered the answers to ask. Both may be nil.
	called, answered func(message string)
	// replied gets a value when the client has answered ask.
	replied chan struct{}
}

// answerTimeout is how long a hostile server waits for the answer to ask.
const answerTimeout = time.Second

func (h *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var message struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	if err := json.Unmarshal(body, &message); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := ""
	switch message.Method {
	case "":
		if h.answered != nil {
			h.answered(string(body))
		}
		select {
		case h.replied <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusAccepted)
		return
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "session")
		result = `{"protocolVersion":"` + protocolVersion + `","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`
	case "tools/list":
		result = `{"tools":` + h.tools + `}`
	case "tools/call":
		if h.called != nil {
			h.called(string(message.Params))
		}
		result = h.result
		if h.ask != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"ask\",%s}\n\n", h.ask)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-h.replied:
			case <-time.After(answerTimeout):
			}
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", message.ID, result)
			return
		}
	}
	if message.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if result == "" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, message.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, message.ID, result)
}

// textResult returns a result with one text.
func textResult(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// flood writes a line that does not end, until the reader is gone.
func flood(w io.Writer) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for range floodMiB {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// floodMiB is how much flood writes, and floodLimitMiB how much memory a safe peer needs at most.
// Both are far above the limits of lines of a safe peer.
const (
	floodMiB      = 160
	floodLimitMiB = 112
)

var errHarmless = errors.New("the peer also refuses what is harmless")
