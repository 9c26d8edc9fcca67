//go:build unix

package shell

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Each request to a registered port becomes at most one request to the server behind it,
// whatever its framing. The server never gets the inner request as a request of its own.
func TestForwardedRequestsAreNotSplit(t *testing.T) {
	const inner = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
	chunked := "0\r\n\r\n" + inner
	body := func(header, text string) string {
		return "POST /x HTTP/1.1\r\nHost: HOST\r\n" + header + "\r\n" + text
	}
	lengthOf := func(text string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(text)) }
	for name, raw := range map[string]string{
		"a body that looks like a request": body(lengthOf(inner), inner),
		"length, then chunks":              body(lengthOf(chunked)+"Transfer-Encoding: chunked\r\n", chunked),
		"chunks, then length":              body("Transfer-Encoding: chunked\r\n"+lengthOf(chunked), chunked),
		"chunked with a space":             body(lengthOf(chunked)+"Transfer-Encoding : chunked\r\n", chunked),
		"chunked with a tab":               body(lengthOf(chunked)+"Transfer-Encoding:\tchunked\r\n", chunked),
		"chunked with a form feed":         body(lengthOf(chunked)+"Transfer-Encoding: \x0bchunked\r\n", chunked),
		"chunked in capitals":              body(lengthOf(chunked)+"TRANSFER-ENCODING: CHUNKED\r\n", chunked),
		"chunked twice":                    body(lengthOf(chunked)+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked),
		"chunked and identity":             body(lengthOf(chunked)+"Transfer-Encoding: chunked, identity\r\n", chunked),
		"chunked and another":              body(lengthOf(chunked)+"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", chunked),
		"chunked on a folded line":         body(lengthOf(chunked)+"Transfer-Encoding:\r\n chunked\r\n", chunked),
		"chunked after a line feed":        body(lengthOf(chunked)+"X: a\nTransfer-Encoding: chunked\r\n", chunked),
		"chunked by an underscore":         body(lengthOf(chunked)+"Transfer_Encoding: chunked\r\n", chunked),
		"chunked in a connection header":   body(lengthOf(chunked)+"Connection: close, Content-Length\r\n", chunked),
		"two lengths":                      body("Content-Length: 4\r\n"+lengthOf(chunked), chunked),
		"a list of lengths":                body(fmt.Sprintf("Content-Length: 4, %d\r\n", len(chunked)), chunked),
		"a length with a sign":             body("Content-Length: +4\r\n", chunked),
		"a length in hexadecimal":          body("Content-Length: 0x4\r\n", chunked),
		"a length beyond all numbers":      body("Content-Length: 18446744073709551617\r\n", chunked),
		"a chunk with an extension":        body("Transfer-Encoding: chunked\r\n", "4;x=\"\r\n"+inner+"\"\r\nabcd\r\n0\r\n\r\n"),
		"a chunk that ends by a line feed": body("Transfer-Encoding: chunked\r\n", "4\nabcd\n0\n\n"+inner),
		"a chunk of another length":        body("Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n"+inner),
		"a chunk beyond all numbers":       body("Transfer-Encoding: chunked\r\n", "ffffffffffffffff5\r\nabcde\r\n0\r\n\r\n"+inner),
		"a chunk with an underscore":       body("Transfer-Encoding: chunked\r\n", "0_4\r\nabcd\r\n0\r\n\r\n"+inner),
		"a trailer":                        body("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "4\r\nabcd\r\n0\r\nContent-Length: 50\r\n\r\n"+inner),
		"a request line in the target":     "GET /x%20HTTP/1.1%0d%0aHost:%20localhost%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"line feeds only":                  "GET /x HTTP/1.1\nHost: HOST\n\n",
		"a header with a line feed":        "GET /x HTTP/1.1\r\nHost: HOST\r\nX: a\n\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a bare carriage return":           "GET /x HTTP/1.1\r\nHost: HOST\r\nX: a\rGET /smuggled HTTP/1.1\r\rHost: localhost\r\n\r\n",
		"HTTP/1.0 with chunks":             "POST /x HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"a body of GET":                    "GET /x HTTP/1.1\r\nHost: HOST\r\n" + lengthOf(inner) + "\r\n" + inner,
		"a promise":                        body("Expect: 100-continue\r\n"+lengthOf(inner), inner),
		"another host":                     "GET /x HTTP/1.1\r\nHost: evil.example\r\n" + lengthOf(inner) + "\r\n" + inner,
		"two hosts":                        "GET /x HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n",
		"an upgrade to HTTP/2":             "GET /upgrade HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + inner,
		"an upgrade to something else":     "GET /upgrade HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n" + inner,
		"an upgrade in a list":             "GET /upgrade HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n" + inner,
		"HTTP/2 with prior knowledge":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"CONNECT":                          "CONNECT localhost:80 HTTP/1.1\r\nHost: HOST\r\n\r\n" + inner,
	} {
		var in, out atomic.Int32
		var mu sync.Mutex
		var seen []string
		behind := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			out.Add(1)
			mu.Lock()
			seen = append(seen, r.Method+" "+r.RequestURI)
			mu.Unlock()
			if r.URL.Path == "/upgrade" && r.Header.Get("Upgrade") != "" {
				upgrade(t, w, r, &out)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		behind.Config.ErrorLog = log.New(io.Discard, "", 0)
		behind.Start()
		forwarded := forwardAny(behind.Listener.Addr().String())
		front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			in.Add(1)
			forwarded.ServeHTTP(w, r)
		}))
		front.Config.ErrorLog = log.New(io.Discard, "", 0)
		front.Start()
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, strings.ReplaceAll(raw, "HOST", front.Listener.Addr().String())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			if res.StatusCode == http.StatusSwitchingProtocols {
				_, _ = io.WriteString(conn, inner) // the connection may have ended
			} else {
				_, _ = io.Copy(io.Discard, res.Body) // as above
			}
			res.Body.Close()
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		front.Close()
		behind.Close()
		if out.Load() > in.Load() {
			t.Errorf("%s: %d requests became %d: %q", name, in.Load(), out.Load(), seen)
		}
	}
}

// upgrade accepts any protocol and counts what arrives as a request.
func upgrade(t *testing.T, w http.ResponseWriter, r *http.Request, out *atomic.Int32) {
	t.Helper()
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := in.ReadByte(); err == nil {
		out.Add(1)
	}
}

// A WebSocket is forwarded.
func TestForwardedWebSocket(t *testing.T) {
	var received atomic.Int32
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { upgrade(t, w, r, &received) }))
	defer behind.Close()
	front := httptest.NewServer(forwardAny(behind.Listener.Addr().String()))
	defer front.Close()
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+front.Listener.Addr().String()+"\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", res, err)
	}
	res.Body.Close()
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, conn) // until the server has closed it
	if received.Load() != 1 {
		t.Error("the WebSocket is not connected to the server")
	}
}

// forwardAny forwards to an address, whatever process listens there.
func forwardAny(address string) http.Handler {
	p := &ports{logger: slog.New(slog.DiscardHandler), owns: func(string) bool { return true }}
	return p.forward(0, address)
}
