package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// openSessions opens w.Sessions sessions at url, an endpoint of Streamable HTTP of the
// legacy era, and leaves them be. They hold no connections.
func openSessions(ctx context.Context, url string, w Work) error {
	for range w.Sessions {
		id, err := openSession(ctx, http.DefaultClient, url)
		if err != nil {
			return err
		}
		if id == "" {
			return fmt.Errorf("%s opens no sessions", url)
		}
	}
	return nil
}

// openSession opens one, and says its id.
func openSession(ctx context.Context, web *http.Client, url string) (id string, err error) {
	for _, message := range []string{initialize, initialized} {
		header := http.Header{"Content-Type": {"application/json"}}
		if id != "" {
			header.Set("Mcp-Session-Id", id)
			header.Set("Mcp-Protocol-Version", string(Legacy))
		}
		resp, err := send(ctx, web, http.MethodPost, url, message, header)
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

// listen is the method by which clients of the modern era ask for a stream.
const listen = "subscriptions/listen"

// openStream listens: in the session id, or on its own in the modern era.
func openStream(ctx context.Context, web *http.Client, url, id string, era Era) (io.Closer, error) {
	header := http.Header{"Mcp-Protocol-Version": {string(era)}}
	method, message := http.MethodGet, ""
	if era == Modern {
		method = http.MethodPost
		message = `{"jsonrpc":"2.0","id":1,"method":"` + listen + `","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`
		header.Set("Content-Type", "application/json")
		header.Set("Mcp-Method", listen)
	} else if id != "" {
		header.Set("Mcp-Session-Id", id)
	}
	resp, err := send(ctx, web, method, url, message, header)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s with %q", url, listen, kind)
	}
	return resp.Body, nil
}

func send(ctx context.Context, web *http.Client, method, url, message string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	req.Header = header
	req.Header.Set("Accept", "application/json, text/event-stream")
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
