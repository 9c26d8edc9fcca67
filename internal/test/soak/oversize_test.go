package soak

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// maxLine is the default longest line of stdio, in bytes.
const maxLine = 16 << 20

// spare is how much a process may grow in addition to twice the limit, in bytes.
const spare = 16 << 20

// inputs are the ways of an oversized message into a server over HTTP: what is sent
// before it, and the expected response, if the connection does not break earlier.
var inputs = []struct {
	name   string
	limit  int64
	before string
	pieces func(c *raw)
	answer string
}{
	{
		name: "streamable: a body with its length", limit: transport.Limits{}.WithDefaults().MessageBytes,
		before: fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n", jsonHeader, oversize),
		answer: "HTTP/1.1 413 ",
	},
	{
		name: "streamable: a body in chunks", limit: transport.Limits{}.WithDefaults().MessageBytes,
		before: "POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + jsonHeader + "Transfer-Encoding: chunked\r\n\r\n", pieces: chunks,
		answer: "HTTP/1.1 413 ",
	},
	{
		name: "sse: a body in chunks", limit: transport.Limits{}.WithDefaults().MessageBytes,
		before: "POST /sse?sessionId=x HTTP/1.1\r\nHost: localhost\r\n" + jsonHeader + "Transfer-Encoding: chunked\r\n\r\n", pieces: chunks,
		answer: "HTTP/1.1 413 ",
	},
	{
		name: "ws: a frame", limit: transport.Limits{}.WithDefaults().MessageBytes, before: wsHandshake, pieces: frames(oversize, true),
		answer: "\x03\xf1", // 1009, message too big: RFC 6455, section 7.4.1
	},
	{
		name: "ws: a message in frames", limit: transport.Limits{}.WithDefaults().MessageBytes, before: wsHandshake, pieces: frames(100<<10, true),
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

// An oversized message is refused and needs about as much memory as the limit. The server
// continues.
func TestServersRefuseOversize(t *testing.T) {
	for _, e := range inputs {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel() // each starts its own server and mostly waits
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
					t.Errorf("the server sent %q, want %q", got, e.answer)
				}
			})
			atMost(t, "the server grew by", cost, 2*e.limit+spare)
			target.serves()
		})
	}
}

// everything reads until the connection ends, and returns the beginning.
func (c *raw) everything() string {
	var b strings.Builder
	_, _ = io.Copy(&b, io.LimitReader(c.in, 64<<10))
	_, _ = io.Copy(io.Discard, c.in)
	return b.String()
}

func chunks(c *raw) { fill(httputil.NewChunkedWriter(c), oversize) }

const wsHandshake = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"

// Frames of a client are masked (RFC 6455, section 5.3). The mask is zero.
const (
	wsText, wsMore, wsLast = 0x01, 0x00, 0x80
	wsPong                 = 0x0a
	wsMasked, wsLong       = 0x80, 127
)

func frameHeader(kind byte, size uint64, masked bool) []byte {
	if !masked {
		return binary.BigEndian.AppendUint64([]byte{kind, wsLong}, size)
	}
	header := binary.BigEndian.AppendUint64([]byte{kind, wsMasked | wsLong}, size)
	return append(header, 0, 0, 0, 0)
}

// frames sends a message in frames of a size.
func frames(size int, masked bool) func(c *raw) {
	return func(c *raw) {
		kind := byte(wsText)
		for sent := 0; sent < oversize; sent += size {
			if size == oversize {
				kind |= wsLast
			}
			if _, err := c.Write(frameHeader(kind, uint64(size), masked)); err != nil {
				return
			}
			fill(c, int64(size))
			kind = wsMore
		}
	}
}

// A line that is too long is answered with an error and skipped.
func TestStdioServerRefusesOversize(t *testing.T) {
	server := start(t, "stdio server")
	if _, err := io.WriteString(server.stdin, legacyHello+"\n"); err != nil {
		t.Fatal(err)
	}
	if got := server.line(); !strings.Contains(got, `"serverInfo"`) {
		t.Fatalf("the server sent %.300s", got)
	}
	cost := server.costs(func() {
		fill(server.stdin, oversize)
		if _, err := io.WriteString(server.stdin, "\n"+legacyCall(1, "echo", nonceJSON("still there?"))+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := server.line(); !strings.Contains(got, `"error"`) {
			t.Errorf("the server sent %.300s, want an error", got)
		}
		if got := server.line(); !strings.Contains(got, "still there?") {
			t.Errorf("the server sent %.300s, want an answer", got)
		}
	})
	atMost(t, "the server grew by", cost, 2*maxLine+spare)
}

// Environment variables of a client process.
const (
	transportVariable = "SOAK_TRANSPORT"
	eraVariable       = "SOAK_ERA"
)

// runClient is the main function of a client process. It connects to the servers on
// standard input and prints the results.
func runClient() error {
	opts := &client.Options{Era: client.Modern}
	if os.Getenv(eraVariable) == "legacy" {
		opts.Era = client.Legacy
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		said, err := visit(dialerOf(os.Getenv(transportVariable), in.Text()), opts)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			said = "timeout"
		case err != nil:
			said = fmt.Sprintf("error %q", err)
		}
		fmt.Println(said)
	}
	return in.Err()
}

func visit(dialer transport.Dialer, opts *client.Options) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout/2)
	defer cancel()
	session, err := client.Connect(ctx, dialer, opts)
	if err != nil {
		return "", err
	}
	defer session.Close()
	return echoed(ctx, session, "echo", echoText)
}

func dialerOf(name, url string) transport.Dialer {
	switch name {
	case "sse":
		return sse.Dial(url+"/sse", nil)
	case "ws":
		return ws.Dial(url+"/ws", nil)
	case "stdio":
		return stdio.Command(os.Args[0], nil, &stdio.CommandOptions{Env: []string{roleVariable + "=" + url}})
	}
	return streamable.Dial(url+"/mcp", nil)
}

// floodStdio is the main function of a server that prints an oversized line before it
// serves.
func floodStdio() error {
	fill(os.Stdout, oversize)
	fmt.Println()
	return serveStdio()
}

// hostileServers send an oversized response to every request.
var hostileServers = []struct {
	name      string
	transport string
	era       string
	limit     int64
	before    string
	pieces    func(c *raw)
}{
	{
		name: "a JSON answer with its length", limit: 16 << 20,
		before: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", oversize),
	},
	{
		name: "a JSON answer in chunks", limit: 16 << 20,
		before: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", pieces: chunks,
	},
	{
		name: "a JSON answer without a length, to a handshake", era: "legacy", limit: 16 << 20,
		before: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
	},
	{
		name: "an event", limit: 16 << 20,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
	},
	{
		name: "an event in many lines, to a handshake", era: "legacy", limit: 16 << 20,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", pieces: lines("data: "),
	},
	{
		name: "an event's name", limit: 64 << 10,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: ",
	},
	{
		name: "comments", limit: 64 << 10,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", pieces: lines(": "),
	},
	{
		name: "a refusal", limit: 16 << 20,
		before: "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n",
	},
	{
		name: "a refusal that looks like one of MCP", limit: 16 << 20,
		before: "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
	},
	{
		name: "a line of a header", limit: 10 << 20, // of net/http
		before: "HTTP/1.1 200 OK\r\nX-Filler: ",
	},
	{
		name: "an event", transport: "sse", era: "legacy", limit: 16 << 20,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /sse\n\ndata: ",
	},
	{
		name: "a first event", transport: "sse", era: "legacy", limit: 16 << 20,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: ",
	},
	{
		name: "a line of a header", transport: "sse", era: "legacy", limit: 10 << 20,
		before: "HTTP/1.1 200 OK\r\nX-Filler: ",
	},
	{
		name: "a frame", transport: "ws", limit: 16 << 20,
		before: wsAccepted, pieces: frames(oversize, false),
	},
	{
		name: "a message in frames", transport: "ws", limit: 16 << 20,
		before: wsAccepted, pieces: frames(100<<10, false),
	},
	{
		name: "a line of a header", transport: "ws", limit: 10 << 20,
		before: "HTTP/1.1 101 Switching Protocols\r\nX-Filler: ",
	},
}

// A client with an oversized response fails, needs about as much memory as the limit, and
// can connect to the next server.
func TestClientsRefuseOversize(t *testing.T) {
	target := startTarget(t)
	for _, e := range hostileServers {
		t.Run(strings.TrimSpace(e.transport+" "+e.era+" "+e.name), func(t *testing.T) {
			c := start(t, "client", transportVariable+"="+e.transport, eraVariable+"="+e.era)
			hostile := serveHostile(t, e.before, e.pieces)
			c.refusesOversize("http://"+hostile, "http://"+target.addr, e.limit, "error ")
		})
	}
	t.Run("stdio a line", func(t *testing.T) {
		c := start(t, "client", transportVariable+"=stdio", eraVariable+"=legacy")
		c.refusesOversize("stdio flood", "stdio server", maxLine, echoText)
	})
}

// echoText is the text of calls that must succeed.
const echoText = "still there?"

func (p *process) refusesOversize(hostile, good string, limit int64, want string) {
	p.Helper()
	send := func(url, want string) {
		p.Helper()
		if _, err := io.WriteString(p.stdin, url+"\n"); err != nil {
			p.Fatal(err)
		}
		got := p.line()
		if !strings.HasPrefix(got, want) {
			p.Errorf("the client printed %.300s, want %s", got, want)
		}
		p.Logf("%.250s", got)
	}
	send(good, echoText)
	atMost(p, "the client grew by", p.costs(func() { send(hostile, want) }), 2*limit+spare)
	send(good, echoText)
}

// serveHostile starts a server that sends the same to all clients, and returns its
// address.
func serveHostile(t *testing.T, before string, pieces func(*raw)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var visits sync.WaitGroup
	t.Cleanup(func() { listener.Close(); visits.Wait() })
	visits.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(timeout))
			visits.Go(func() {
				defer conn.Close()
				sendOversize(&raw{t, conn, bufio.NewReader(conn)}, before, pieces)
			})
		}
	})
	return listener.Addr().String()
}

func sendOversize(c *raw, before string, pieces func(*raw)) {
	req, err := http.ReadRequest(c.in)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	before = strings.Replace(before, wsProof, wsProofOf(req.Header.Get("Sec-WebSocket-Key")), 1)
	if _, err := io.WriteString(c, before); err != nil {
		return
	}
	if pieces != nil {
		pieces(c)
	} else {
		fill(c, oversize)
	}
}

// lines sends many short lines.
func lines(prefix string) func(c *raw) {
	return func(c *raw) {
		line := prefix + strings.Repeat("x", 1000) + "\n"
		text := []byte(strings.Repeat(line, 64))
		for sent := 0; sent < oversize; sent += len(text) {
			if _, err := c.Write(text); err != nil {
				return
			}
		}
	}
}

const (
	wsProof    = "<proof>"
	wsAccepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Accept: " + wsProof + "\r\n\r\n"
)

// wsProofOf returns the Sec-WebSocket-Accept header for a key: RFC 6455, section 4.2.2.
func wsProofOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
