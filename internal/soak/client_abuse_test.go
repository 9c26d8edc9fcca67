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
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// What a client process finds in its environment.
const (
	transportVariable = "SOAK_TRANSPORT"
	eraVariable       = "SOAK_ERA"
)

// beClient is a process. Each time it is told to, it visits a server, and says what
// came of it.
func beClient() error {
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
	ctx, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	session, err := client.Connect(ctx, dialer, opts)
	if err != nil {
		return "", err
	}
	defer session.Close()
	return echoed(ctx, session, "echo", fine)
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

// floodStdio is a process: a server that prints something before it serves.
func floodStdio() error {
	fill(os.Stdout, oversize)
	fmt.Println()
	return serveStdio()
}

// evils are servers that say far too much, whatever they are asked.
var evils = []struct {
	name      string
	transport string
	era       string
	limit     int64
	before    string
	pieces    func(c *raw)
}{
	{
		name: "a JSON answer with its length", limit: streamable.DefaultDialMaxMessage,
		before: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", oversize),
	},
	{
		name: "a JSON answer in chunks", limit: streamable.DefaultDialMaxMessage,
		before: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", pieces: chunks,
	},
	{
		name: "a JSON answer without a length, to a handshake", era: "legacy", limit: streamable.DefaultDialMaxMessage,
		before: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
	},
	{
		name: "an event", limit: streamable.DefaultDialMaxMessage,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
	},
	{
		name: "an event in many lines, to a handshake", era: "legacy", limit: streamable.DefaultDialMaxMessage,
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
		name: "a refusal", limit: streamable.DefaultDialMaxMessage,
		before: "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n",
	},
	{
		name: "a refusal that looks like one of MCP", limit: streamable.DefaultDialMaxMessage,
		before: "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
	},
	{
		name: "a line of a header", limit: 10 << 20, // of net/http
		before: "HTTP/1.1 200 OK\r\nX-Filler: ",
	},
	{
		name: "an event", transport: "sse", era: "legacy", limit: sse.DefaultDialMaxMessage,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /sse\n\ndata: ",
	},
	{
		name: "a first event", transport: "sse", era: "legacy", limit: sse.DefaultDialMaxMessage,
		before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: ",
	},
	{
		name: "a line of a header", transport: "sse", era: "legacy", limit: 10 << 20,
		before: "HTTP/1.1 200 OK\r\nX-Filler: ",
	},
	{
		name: "a frame", transport: "ws", limit: ws.DefaultDialMaxMessage,
		before: wsAccepted, pieces: oneServerFrame,
	},
	{
		name: "a message in frames", transport: "ws", limit: ws.DefaultDialMaxMessage,
		before: wsAccepted, pieces: manyServerFrames,
	},
	{
		name: "a line of a header", transport: "ws", limit: 10 << 20,
		before: "HTTP/1.1 101 Switching Protocols\r\nX-Filler: ",
	},
}

// A client whose server says far too much fails, costs about the limit, and can be
// used for the next server.
func TestClientsRefuseOversize(t *testing.T) {
	target := startTarget(t)
	for _, e := range evils {
		t.Run(strings.TrimSpace(e.transport+" "+e.era+" "+e.name), func(t *testing.T) {
			c := start(t, "client", transportVariable+"="+e.transport, eraVariable+"="+e.era)
			evil := serveEvil(t, e.before, e.pieces)
			c.refusesOversize("http://"+evil, "http://"+target.addr, e.limit, "error ")
		})
	}
	t.Run("stdio a line", func(t *testing.T) {
		c := start(t, "client", transportVariable+"=stdio", eraVariable+"=legacy")
		c.refusesOversize("stdio flood", "stdio server", jsonrpc.DefaultMaxLine, fine)
	})
}

// fine is what a client says of a good server.
const fine = "still there?"

func (p *process) refusesOversize(evil, good string, limit int64, want string) {
	p.Helper()
	tell := func(url, want string) {
		p.Helper()
		if _, err := io.WriteString(p.stdin, url+"\n"); err != nil {
			p.Fatal(err)
		}
		got := p.line()
		if !strings.HasPrefix(got, want) {
			p.Errorf("the client said %.300s, want %s", got, want)
		}
		p.Logf("%.250s", got)
	}
	tell(good, fine)
	atMost(p, "the client grew by", p.costs(func() { tell(evil, want) }), 2*limit+spare)
	tell(good, fine)
}

// serveEvil says the same to whoever asks, and returns its address.
func serveEvil(t *testing.T, before string, pieces func(*raw)) (addr string) {
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
			_ = conn.SetDeadline(time.Now().Add(patience))
			visits.Go(func() {
				defer conn.Close()
				overwhelm(&raw{t, conn, bufio.NewReader(conn)}, before, pieces)
			})
		}
	})
	return listener.Addr().String()
}

func overwhelm(c *raw, before string, pieces func(*raw)) {
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

// lines are many of the same kind.
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

// wsProofOf is what shows that a server speaks WebSocket: RFC 6455, section 4.2.2.
func wsProofOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func serverFrameHeader(kind byte, size uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind, wsLong}, size)
}

func oneServerFrame(c *raw) {
	if _, err := c.Write(serverFrameHeader(wsText|wsLast, oversize)); err == nil {
		fill(c, oversize)
	}
}

func manyServerFrames(c *raw) {
	const size = 100 << 10
	kind := byte(wsText)
	for sent := 0; sent < oversize; sent += size {
		if _, err := c.Write(serverFrameHeader(kind, size)); err != nil {
			return
		}
		fill(c, size)
		kind = wsMore
	}
}
