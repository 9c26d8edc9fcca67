package soak

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// A raw connection is a minimal HTTP client that can violate the protocol.
type raw struct {
	testing.TB
	net.Conn
	in *bufio.Reader
}

func dialRaw(t testing.TB, addr string) *raw {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(timeout))
	return &raw{t, conn, bufio.NewReaderSize(conn, 1<<10)}
}

// hangUp resets the connection, so that its port is free immediately.
func (c *raw) hangUp() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// send sends a request.
func (c *raw) send(method, path, header, body string) {
	c.Helper()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", method, path, header, len(body), body)
	if _, err := io.WriteString(c, request); err != nil {
		c.Fatal(err)
	}
}

// response reads the header of a response.
func (c *raw) response() *http.Response {
	c.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Fatal(err)
	}
	return resp
}

// answer sends a request and reads the whole response.
func (c *raw) answer(method, path, header, body string) (*http.Response, []byte) {
	c.Helper()
	c.send(method, path, header, body)
	resp := c.response()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp, text
}

const jsonHeader = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"

// modern returns the header and the body of a request without a session.
func modern(id int, method, name, params string) (header, body string) {
	header = fmt.Sprintf("%sMCP-Protocol-Version: %s\r\nMcp-Method: %s\r\n", jsonHeader, mcp.Version20260728, method)
	if name != "" {
		header += "Mcp-Name: " + name + "\r\n"
	}
	return header, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{%q:%q,%q:{},"progressToken":%d},%s}}`,
		id, method, mcp.MetaProtocolVersion, mcp.Version20260728, mcp.MetaClientCapabilities, id, params)
}

func modernCall(id int, tool, arguments string) (header, body string) {
	return modern(id, mcp.MethodToolsCall, tool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
}

func legacyCall(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"progressToken":%d},"name":%q,"arguments":%s}}`, id, id, tool, arguments)
}

func nonceJSON(nonce string) string {
	text, err := json.Marshal(echoIn{nonce})
	if err != nil {
		panic(err) // it is a string
	}
	return string(text)
}

// callsEcho checks that a call without a session is answered.
func (c *raw) callsEcho(nonce string) {
	c.Helper()
	header, body := modernCall(1, "echo", nonceJSON(nonce))
	resp, text := c.answer("POST", "/mcp", header, body)
	c.echoed(resp, text, nonce)
}

func (c *raw) echoed(resp *http.Response, text []byte, nonce string) {
	c.Helper()
	if want := fmt.Sprintf(`"text":%q`, nonce); resp.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(want)) {
		c.Fatalf("answered with %s\n%.300s\nwant %s", resp.Status, text, want)
	}
}

const legacyHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// open opens a session and returns the header of its requests.
func (c *raw) open() (header string) { return c.openAt("/mcp", "") }

func (c *raw) openAt(path, more string) (header string) {
	c.Helper()
	resp, text := c.answer("POST", path, jsonHeader+more, legacyHello)
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || id == "" {
		c.Fatalf("no session was opened: %s\n%.300s", resp.Status, text)
	}
	header = fmt.Sprintf("%s%sMcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n", jsonHeader, more, id)
	if resp, text := c.answer("POST", path, header, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != http.StatusAccepted {
		c.Fatalf("the session was not taken: %s\n%.300s", resp.Status, text)
	}
	return header
}

// sessionID returns the ID in a header that open has returned.
func sessionID(header string) string {
	_, rest, _ := strings.Cut(header, "Mcp-Session-Id: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

// fill writes size bytes, or until writing fails.
func fill(w io.Writer, size int64) {
	filler := bytes.Repeat([]byte("x"), 64<<10)
	for ; size > 0; size -= int64(len(filler)) {
		if _, err := w.Write(filler[:min(size, int64(len(filler)))]); err != nil {
			return
		}
	}
}
