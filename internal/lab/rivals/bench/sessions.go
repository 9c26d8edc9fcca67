package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// openSession opens a session and returns its id. Both are empty in the modern era.
func openSession(ctx context.Context, web *http.Client, url string, era Era) (id string, err error) {
	if era == Modern {
		return "", nil
	}
	for _, message := range []string{initialize, initialized} {
		resp, err := send(ctx, web, http.MethodPost, url, []byte(message), header(era, id, ""))
		if err != nil {
			return "", err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			return "", err
		}
		if id == "" {
			id = resp.Header.Get("Mcp-Session-Id")
		}
	}
	return id, nil
}

// header returns the header of a request in a session. method is that of requests in the modern era.
func header(era Era, session, method string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if session != "" || era == Modern {
		h.Set("Mcp-Protocol-Version", string(era))
	}
	if session != "" {
		h.Set("Mcp-Session-Id", session)
	}
	if era == Modern && method != "" {
		h.Set("Mcp-Method", method)
	}
	return h
}

// listen is the method that opens a stream in the modern era.
const listen = "subscriptions/listen"

// openStream opens a stream, in a session or on its own in the modern era.
func openStream(ctx context.Context, web *http.Client, url, session string, era Era) (io.Closer, error) {
	method, message := http.MethodGet, ""
	if era == Modern {
		method = http.MethodPost
		message = `{"jsonrpc":"2.0","id":1,"method":"` + listen + `","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`
	}
	resp, err := send(ctx, web, method, url, []byte(message), header(era, session, listen))
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s with %q", url, listen, kind)
	}
	return resp.Body, nil
}

// A caller calls echo over HTTP and does as little else as possible, so that it costs the same for every
// server.
type caller struct {
	web     *http.Client
	url     string
	header  http.Header
	echo    *echo
	request []byte
	answer  bytes.Buffer
}

func newCaller(ctx context.Context, web *http.Client, url string, w Work) (*caller, error) {
	session, err := openSession(ctx, web, url, w.Era)
	if err != nil {
		return nil, err
	}
	h := header(w.Era, session, "tools/call")
	if w.Era == Modern {
		h.Set("Mcp-Name", echoTool)
	}
	e := newEcho(w)
	return &caller{web: web, url: url, header: h, echo: e, request: e.request(w.Era)}, nil
}

// call leaves the response in c.answer.
func (c *caller) call(ctx context.Context) error {
	resp, err := send(ctx, c.web, http.MethodPost, c.url, c.request, c.header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.answer.Reset()
	if _, err := c.answer.ReadFrom(resp.Body); err != nil {
		return err
	}
	return c.echo.checkBytes(c.answer.Bytes())
}

func send(ctx context.Context, web *http.Client, method, url string, message []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s: %s", url, resp.Status, answer)
	}
	return resp, nil
}
