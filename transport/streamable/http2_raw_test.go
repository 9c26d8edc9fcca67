package streamable_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Frame types and flags of HTTP/2. RFC 9113, section 6.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	frameGoAway       = 7
	frameContinuation = 9
	flagEndStream     = 1
	flagEndHeaders    = 4

	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	// patience is far more than anything takes that a test waits for, on a busy machine too.
	patience = time.Minute
)

// A rawHTTP2 is a connection whose frames a test writes.
type rawHTTP2 struct {
	*testing.T
	net.Conn
	ended    chan struct{} // closed when the server has closed the connection
	answered chan struct{} // has capacity 1; receives a value for a response and a refusal
	goAway   atomic.Int64  // the error code of a GOAWAY frame, -1 if there was none
}

// startTLS serves s with TLS, and returns the address and a client that trusts it.
func startTLS(t *testing.T, s *server.Server, opts streamable.ServeOptions) (address string, web *http.Client) {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	t.Cleanup(certified.Close)
	config := &tls.Config{Certificates: certified.TLS.Certificates}
	opts.Logger = slog.New(slog.DiscardHandler)
	address, stop := start(t, opts, func(ctx context.Context, opts *streamable.ServeOptions) error {
		return streamable.ServeTLS(ctx, "127.0.0.1:0", s, config, opts)
	})
	own := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: certified.Client().Transport.(*http.Transport).TLSClientConfig}
	t.Cleanup(func() {
		own.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return address, &http.Client{Transport: own}
}

func dialHTTP2(t *testing.T, address string, web *http.Client) *rawHTTP2 {
	t.Helper()
	config := web.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	r := &rawHTTP2{T: t, Conn: conn, ended: make(chan struct{}), answered: make(chan struct{}, 1)}
	r.goAway.Store(-1)
	r.write([]byte(http2Preface))
	r.write(frame(frameSettings, 0, 0, nil))
	go r.read()
	t.Cleanup(func() {
		conn.Close()
		<-r.ended
	})
	return r
}

// read reads what the server sends.
func (r *rawHTTP2) read() {
	defer close(r.ended)
	in := bufio.NewReader(r.Conn)
	for {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		switch head[3] {
		case frameGoAway:
			r.goAway.Store(int64(binary.BigEndian.Uint32(payload[4:8])))
		case frameHeaders, frameReset:
		default:
			continue
		}
		select {
		case r.answered <- struct{}{}:
		default:
		}
	}
}

// write writes frames. It reports whether the server still reads.
func (r *rawHTTP2) write(frames []byte) bool {
	_ = r.SetWriteDeadline(time.Now().Add(patience))
	_, err := r.Conn.Write(frames)
	return err == nil
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// fields encodes header fields without indexing. RFC 7541, section 6.2.2.
func fields(pairs ...string) []byte {
	var block []byte
	for i := 0; i < len(pairs); i += 2 {
		block = append(block, 0)
		for _, text := range pairs[i : i+2] {
			if len(text) >= 127 {
				block = append(binary.AppendUvarint(append(block, 127), uint64(len(text)-127)), text...)
			} else {
				block = append(append(block, byte(len(text))), text...)
			}
		}
	}
	return block
}

// post returns the frames of a call, and of more header fields.
func post(stream uint32, authority, tool string, more ...string) []byte {
	head := append([]string{
		":method", "POST", ":scheme", "https", ":authority", authority, ":path", "/mcp", "content-type", "application/json",
		"mcp-protocol-version", "2026-07-28", "mcp-method", "tools/call", "mcp-name", tool,
	}, more...)
	return append(frame(frameHeaders, flagEndHeaders, stream, fields(head...)), frame(frameData, flagEndStream, stream, []byte(callOf(tool)))...)
}

// A client that resets its requests as fast as it can has no more calls running than MaxStreams. Other clients are
// served at the same time. CVE-2023-44487.
func TestLimitOfStreams(t *testing.T) {
	for limit, want := range map[int]int64{0: 128, 10: 10} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) { testRapidReset(t, limit, want) })
	}
}

func testRapidReset(t *testing.T, limit int, want int64) {
	var running, most atomic.Int64
	release := make(chan struct{})
	s := newServer()
	server.AddTool(s, server.Tool{Name: "stubborn"}, func(context.Context, *server.Request, struct{}) (string, error) {
		for n := running.Add(1); n > most.Load(); {
			most.Store(n)
		}
		defer running.Add(-1)
		<-release // whatever its context says
		return "", nil
	})
	address, web := startTLS(t, s, streamable.ServeOptions{MaxStreams: limit})
	t.Cleanup(func() { close(release) })
	raw := dialHTTP2(t, address, web)
	for i := range uint32(3000) {
		stream := 2*i + 1
		if !raw.write(append(post(stream, address, "stubborn"), frame(frameReset, 0, stream, []byte{0, 0, 0, 8})...)) {
			break
		}
	}
	session, err := client.Connect(t.Context(), streamable.Dial("https://"+address+"/mcp", &streamable.DialOptions{HTTPClient: web}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := session.CallTool(ctx, "sum", sumIn{1, 2}, nil); err != nil {
		t.Errorf("another client: %v", err)
	}
	select {
	case <-raw.ended:
	case <-time.After(patience):
		t.Error("the server still reads from the connection")
	}
	if got := most.Load(); got > want || got == 0 {
		t.Errorf("%d calls ran at the same time, want 1 to %d", got, want)
	}
	if code := raw.goAway.Load(); code != 11 { // ENHANCE_YOUR_CALM
		t.Errorf("the connection ended with the code %d", code)
	}
}

// A header without end ends its connection.
func TestHTTP2HeaderWithoutEnd(t *testing.T) {
	address, web := startTLS(t, newServer(), streamable.ServeOptions{})
	raw := dialHTTP2(t, address, web)
	ok := raw.write(frame(frameHeaders, 0, 1, fields(":method", "POST")))
	for n := 0; ok && n < 1000; n++ {
		ok = raw.write(frame(frameContinuation, 0, 1, fields("x", strings.Repeat("x", 16_000))))
	}
	select {
	case <-raw.ended:
	case <-time.After(patience):
		t.Error("the server still reads from the connection")
	}
}

// Malformed HTTP/2, and requests for other hosts and from other origins, call no tool.
func TestHTTP2RequestsThatAreRefused(t *testing.T) {
	length := fmt.Sprint(len(callOf("count")))
	for name, frames := range map[string]func(address string) []byte{
		"a frame that is too long": func(string) []byte { return frame(frameData, 0, 1, make([]byte, 1<<20)) },
		"data without a request":   func(string) []byte { return frame(frameData, flagEndStream, 1, []byte(callOf("count"))) },
		"an even stream":           func(address string) []byte { return post(2, address, "count") },
		"a header in capitals":     func(address string) []byte { return post(1, address, "count", "X-Big", "x") },
		"a line break":             func(address string) []byte { return post(1, address, "count", "x", "a\r\nhost: evil.example") },
		"a connection header":      func(address string) []byte { return post(1, address, "count", "connection", "upgrade") },
		"a transfer encoding":      func(address string) []byte { return post(1, address, "count", "transfer-encoding", "chunked") },
		"a late pseudo-header":     func(address string) []byte { return post(1, address, "count", ":path", "/other") },
		"a wrong length":           func(address string) []byte { return post(1, address, "count", "content-length", "1") },
		"two lengths": func(address string) []byte {
			return post(1, address, "count", "content-length", "7", "content-length", length)
		},
		"another authority":       func(string) []byte { return post(1, "evil.example", "count") },
		"no authority":            func(string) []byte { return post(1, "", "count") },
		"a user in the authority": func(address string) []byte { return post(1, "user@"+address, "count") },
		"an origin":               func(address string) []byte { return post(1, address, "count", "origin", "https://evil.example") },
		"an origin twice": func(address string) []byte {
			return post(1, address, "count", "origin", "https://"+address, "origin", "https://evil.example")
		},
		"another host header": func(address string) []byte { return post(1, "evil.example", "count", "host", address) },
	} {
		t.Run(name, func(t *testing.T) {
			var called atomic.Int64
			s := newServer()
			server.AddTool(s, server.Tool{Name: "count"}, func(context.Context, *server.Request, struct{}) (string, error) {
				called.Add(1)
				return "", nil
			})
			t.Cleanup(func() { // after the server has ended
				if n := called.Load(); n != 0 {
					t.Errorf("the tool was called %d times", n)
				}
			})
			address, web := startTLS(t, s, streamable.ServeOptions{})
			raw := dialHTTP2(t, address, web)
			raw.write(frames(address))
			select {
			case <-raw.answered:
			case <-raw.ended:
			case <-time.After(patience):
				t.Error("the server has not answered")
			}
		})
	}
	// The same frames without a fault call it.
	called := make(chan struct{}, 1)
	s := newServer()
	server.AddTool(s, server.Tool{Name: "count"}, func(context.Context, *server.Request, struct{}) (string, error) {
		called <- struct{}{}
		return "", nil
	})
	address, web := startTLS(t, s, streamable.ServeOptions{})
	dialHTTP2(t, address, web).write(post(1, address, "count", "content-length", length))
	waittest.Receive(t, "the call", called)
}

// HTTP/2 without TLS is refused, with prior knowledge and as an upgrade, and so is an upgrade
// to anything else. RFC 9113, section 3.
func TestHTTP2WithoutTLS(t *testing.T) {
	address, stop := startServe(t, newServer(), streamable.ServeOptions{Options: streamable.Options{Logger: slog.New(slog.DiscardHandler)}})
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	const last = "OPTIONS /mcp HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n" // ends the connection
	body := sum(1, 2, 3)
	head := "POST /mcp HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: sum\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n", len(body))
	for name, c := range map[string]struct {
		sent    string
		answers int
	}{
		"prior knowledge": {http2Preface + string(frame(frameSettings, 0, 0, nil)) + string(post(1, address, "sum")), 0},
		"h2c":             {head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + body + http2Preface + string(post(3, address, "sum")), 1},
		"TLS":             {head + "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n" + body + last, 1},
		"websocket":       {head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + body + last, 1},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, c.sent); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		answer, _ := io.ReadAll(conn) // the server may reset the connection
		conn.Close()
		if got := strings.Count(string(answer), `"5"`); got != c.answers || strings.Contains(string(answer), "101 Switching") {
			t.Errorf("%s: %d answers, want %d: %.300q", name, got, c.answers, answer)
		}
	}
}
