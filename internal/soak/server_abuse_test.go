package soak

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// spare is what a process may grow beside twice what it has to keep.
const spare = 16 << 20

// entrances are the ways of a message into a server over HTTP: what is sent before
// far too much of it, and what the server says to that, unless the connection breaks
// before it could.
var entrances = []struct {
	name   string
	limit  int64
	before string
	pieces func(c *raw)
	answer string
}{
	{
		name: "streamable: a body with its length", limit: streamable.DefaultMaxMessage,
		before: fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n", jsonHeader, oversize),
		answer: "HTTP/1.1 413 ",
	},
	{
		name: "streamable: a body in chunks", limit: streamable.DefaultMaxMessage,
		before: "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + jsonHeader + "Transfer-Encoding: chunked\r\n\r\n", pieces: chunks,
		answer: "HTTP/1.1 413 ",
	},
	{
		name: "sse: a body in chunks", limit: sse.DefaultMaxMessage,
		before: "POST /sse?sessionId=x HTTP/1.1\r\nHost: localhost\r\n" + jsonHeader + "Transfer-Encoding: chunked\r\n\r\n", pieces: chunks,
		answer: "HTTP/1.1 413 ",
	},
	{
		name: "ws: a frame", limit: ws.DefaultMaxMessage, before: wsHandshake, pieces: oneFrame,
		answer: "\x03\xf1", // 1009, message too big: RFC 6455, section 7.4.1
	},
	{
		name: "ws: a message in frames", limit: ws.DefaultMaxMessage, before: wsHandshake, pieces: manyFrames,
		answer: "\x03\xf1",
	},
	{
		name: "a line of a header", limit: maxHeader, before: "GET /mcp HTTP/1.1\r\nHost: localhost\r\nX-Filler: ",
		answer: "HTTP/1.1 431 ",
	},
	{
		name: "the request's line", limit: maxHeader, before: "GET /mcp?",
		answer: "HTTP/1.1 431 ",
	},
}

// A message far beyond the limit is refused, costs about the limit, and the server
// goes on.
func TestServersRefuseOversize(t *testing.T) {
	for _, e := range entrances {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel() // each has a server, and waits most of the time
			target := startTarget(t)
			target.serves()
			cost := target.costs(func() {
				c := dialRaw(t, target.addr)
				defer c.Close()
				if _, err := io.WriteString(c, e.before); err != nil {
					t.Fatal(err)
				}
				if e.before == wsHandshake {
					c.response()
				}
				said := make(chan string)
				go func() { said <- c.everything() }()
				if e.pieces != nil {
					e.pieces(c)
				} else {
					fill(c, oversize)
				}
				if got := <-said; !strings.Contains(got, e.answer) {
					t.Errorf("the server said %q, want %q", got, e.answer)
				}
			})
			atMost(t, "the server grew by", cost, 2*e.limit+spare)
			target.serves()
		})
	}
}

// everything reads until the connection ends, in whatever way; it keeps the beginning.
func (c *raw) everything() string {
	var b strings.Builder
	_, _ = io.Copy(&b, io.LimitReader(c.in, 64<<10))
	_, _ = io.Copy(io.Discard, c.in)
	return b.String()
}

func chunks(c *raw) { fill(httputil.NewChunkedWriter(c), oversize) }

const wsHandshake = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"

// Frames of a client are masked: RFC 6455, section 5.3. With this mask they look the
// same.
const (
	wsText, wsMore, wsLast = 0x01, 0x00, 0x80
	wsMasked, wsLong       = 0x80, 127
)

func frameHeader(kind byte, size uint64) []byte {
	header := binary.BigEndian.AppendUint64([]byte{kind, wsMasked | wsLong}, size)
	return append(header, 0, 0, 0, 0)
}

func oneFrame(c *raw) {
	if _, err := c.Write(frameHeader(wsText|wsLast, oversize)); err == nil {
		fill(c, oversize)
	}
}

func manyFrames(c *raw) {
	const size = 100 << 10
	kind := byte(wsText)
	for sent := 0; sent < oversize; sent += size {
		if _, err := c.Write(frameHeader(kind, size)); err != nil {
			return
		}
		fill(c, size)
		kind = wsMore
	}
}

// A line that is too long is answered and skipped.
func TestStdioServerRefusesOversize(t *testing.T) {
	server := start(t, "stdio server")
	if _, err := io.WriteString(server.stdin, legacyHello+"\n"); err != nil {
		t.Fatal(err)
	}
	if got := server.line(); !strings.Contains(got, `"serverInfo"`) {
		t.Fatalf("the server said %.300s", got)
	}
	cost := server.costs(func() {
		fill(server.stdin, oversize)
		if _, err := io.WriteString(server.stdin, "\n"+legacyCall(1, "echo", nonceJSON("still there?"))+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := server.line(); !strings.Contains(got, `"error"`) {
			t.Errorf("the server said %.300s, want an error", got)
		}
		if got := server.line(); !strings.Contains(got, "still there?") {
			t.Errorf("the server said %.300s, want an answer", got)
		}
	})
	atMost(t, "the server grew by", cost, 2*jsonrpc.DefaultMaxLine+spare)
}
