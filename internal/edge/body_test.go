package edge_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
)

const limit = 100_000

// post sends a request to a server that answers with the body it read.
func post(t *testing.T, body io.Reader, length int64, header http.Header) (status int, answer string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(echoBody))
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = length
	r.Header = header
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

func echoBody(w http.ResponseWriter, r *http.Request) {
	if body, ok := edge.ReadJSON(w, r, limit); ok {
		w.Write(body)
	}
}

func TestReadJSONTypes(t *testing.T) {
	for _, c := range []struct {
		header string
		lines  []string
		ok     bool
	}{
		{"Content-Type", []string{"application/json"}, true},
		{"Content-Type", []string{"application/json; charset=utf-8"}, true},
		{"Content-Type", []string{`Application/JSON ;charset="UTF-8"`}, true},
		{"Content-Type", nil, false},
		{"Content-Type", []string{""}, false},
		{"Content-Type", []string{"application/json", "application/json"}, false},
		{"Content-Type", []string{"application/json, application/json"}, false},
		{"Content-Type", []string{"application/json; charset=latin1"}, false},
		{"Content-Type", []string{"application/json; charset=utf-8; charset=latin1"}, false},
		{"Content-Type", []string{"application/json; q=1"}, false},
		{"Content-Type", []string{"application/json; version=utf-8"}, false},
		{"Content-Type", []string{"application/json; =;"}, false},
		{"Content-Type", []string{"application/json-rpc"}, false},
		{"Content-Type", []string{"application/jsonp"}, false},
		{"Content-Type", []string{"text/json"}, false},
		{"Content-Type", []string{"text/plain"}, false},
		{"Content-Type", []string{"application/x-www-form-urlencoded"}, false},
		{"Content-Type", []string{"multipart/form-data; boundary=x"}, false},
		{"Content-Encoding", []string{"identity"}, true},
		{"Content-Encoding", []string{"Identity"}, true},
		{"Content-Encoding", []string{"gzip"}, false},
		{"Content-Encoding", []string{"identity, gzip"}, false},
		{"Content-Encoding", []string{"identity", "br"}, false},
		{"Content-Encoding", []string{"deflate"}, false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header[c.header] = c.lines
		w := httptest.NewRecorder()
		body, ok := edge.ReadJSON(w, r, limit)
		if ok != c.ok {
			t.Errorf("%s %q is read: %t, want %t", c.header, c.lines, ok, c.ok)
		}
		if ok && string(body) != `{}` {
			t.Errorf("%s %q: body %q", c.header, c.lines, body)
		}
		if !ok {
			checkRefusal(t, w, http.StatusUnsupportedMediaType)
		}
	}
}

func TestReadJSONLengths(t *testing.T) {
	header := func() http.Header { return http.Header{"Content-Type": {"application/json"}} }
	for _, length := range []int{0, 1, 4095, 4096, 4097, 65535, 65536, 65537, limit - 1, limit} {
		body := strings.Repeat("x", length) // whether it is JSON is not looked at
		if status, got := post(t, strings.NewReader(body), int64(length), header()); status != 200 || got != body {
			t.Errorf("%d bytes: status %d, %d bytes came back", length, status, len(got))
		}
		if status, got := post(t, io.NopCloser(strings.NewReader(body)), -1, header()); status != 200 || got != body {
			t.Errorf("%d bytes in chunks: status %d, %d bytes came back", length, status, len(got))
		}
	}
	for _, length := range []int{limit + 1, 3 * limit} {
		body := strings.Repeat("x", length)
		if status, got := post(t, strings.NewReader(body), int64(length), header()); status != http.StatusRequestEntityTooLarge || !strings.Contains(got, "100000 bytes") {
			t.Errorf("%d bytes: status %d, %s", length, status, got)
		}
		if status, got := post(t, io.NopCloser(strings.NewReader(body)), -1, header()); status != http.StatusRequestEntityTooLarge || !strings.Contains(got, "100000 bytes") {
			t.Errorf("%d bytes in chunks: status %d, %s", length, status, got)
		}
	}
}

// A body has as much memory as has come of it, and one piece of it when it is small.
func TestReadJSONMemory(t *testing.T) {
	for range 2 { // after which nothing is left of what other bodies have had
		runtime.GC()
	}
	for claimed, most := range map[int64]int{1: 1, 1000: 1000, 65536: 65536, 4 << 20: 65536, 4<<20 - 1: 65536, -1: 4096} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", "application/json")
		liar := &breakingOff{}
		r.Body, r.ContentLength = io.NopCloser(liar), claimed
		w := httptest.NewRecorder()
		if _, ok := edge.ReadJSON(w, r, 4<<20); ok {
			t.Errorf("a body of %d bytes that has none was read", claimed)
		}
		checkRefusal(t, w, http.StatusBadRequest)
		if liar.asked != most {
			t.Errorf("%d bytes were set aside for a body that claims %d, want %d", liar.asked, claimed, most)
		}
	}
}

// breakingOff is a body that ends before it begins.
type breakingOff struct{ asked int }

func (b *breakingOff) Read(p []byte) (int, error) {
	b.asked = len(p)
	return 0, io.ErrUnexpectedEOF
}

// A server serves one in-memory connection, so that its time can be virtual.
func pipeServer(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	listener := &oneConn{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	listener.conns <- there
	srv := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		here.Close()
		srv.Close()
		<-done
	})
	return here
}

type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	close(l.closed)
	return nil
}

func (l *oneConn) Addr() net.Addr { return pipeAddr{} }

// A body that drips is cut off; one that comes at a modest rate is not, however long
// that takes.
func TestReadJSONRate(t *testing.T) {
	for name, c := range map[string]struct {
		piece  int // bytes sent each second
		status int
		after  time.Duration
	}{
		"nothing comes":      {0, http.StatusRequestTimeout, 10 * time.Second},
		"a byte a second":    {1, http.StatusRequestTimeout, 10 * time.Second},
		"half the rate":      {500, http.StatusRequestTimeout, 20 * time.Second},
		"just about enough":  {1024, http.StatusOK, 97 * time.Second},
		"more than the rate": {1500, http.StatusOK, 66 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := pipeServer(t, echoBody)
				start := time.Now()
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", limit)
				sending := make(chan struct{})
				go func() {
					defer close(sending)
					for sent := 0; c.piece > 0 && sent < limit; sent += c.piece {
						if sent > 0 {
							<-time.After(time.Second)
						}
						if _, err := conn.Write(make([]byte, min(c.piece, limit-sent))); err != nil {
							return
						}
					}
				}()
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(start)
				if resp.StatusCode != c.status || took.Round(time.Second) != c.after {
					t.Errorf("status %d after %v, want %d after %v", resp.StatusCode, took, c.status, c.after)
				}
				conn.Close()
				<-sending
			})
		})
	}
}

// The deadline of a body is not that of its answer, or of the next request.
func TestReadJSONLeavesNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			if _, ok := edge.ReadJSON(w, r, limit); !ok {
				return
			}
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
				t.Errorf("the request ended while it was handled: %v", context.Cause(r.Context()))
			}
		})
		in := bufio.NewReader(conn)
		for range 2 {
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d", resp.StatusCode)
			}
			<-time.After(time.Hour)
		}
	})
}

// Whoever is refused is told so at once, and holds the connection no longer than a
// moment by not sending the body.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	g := guard(t, nil, nil)
	handler := func(w http.ResponseWriter, r *http.Request) {
		if g.Admit(w, r, "POST") {
			echoBody(w, r)
		}
	}
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"host":          {"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n", 403},
		"host, chunked": {"POST / HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n", 403},
		"origin":        {"POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nContent-Length: 1000\r\n\r\n", 403},
		"method":        {"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", 405},
		"type":          {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", 415},
		"length":        {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n", 413},
		"length, on demand": {
			"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 200000\r\nExpect: 100-continue\r\n\r\n", 413,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := pipeServer(t, handler)
				start := time.Now()
				fmt.Fprint(conn, c.head)
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); resp.StatusCode != c.status || took > 0 {
					t.Errorf("status %d after %v, want %d at once", resp.StatusCode, took, c.status)
				}
				if !resp.Close {
					t.Error("the connection is to be used again")
				}
				if _, err := io.Copy(io.Discard, in); err != nil {
					t.Error(err)
				}
				if held := time.Since(start); held > 2*time.Second {
					t.Errorf("the connection was held for %v", held)
				}
			})
		})
	}
}

// A client that hangs up in the middle of its body has not sent a request.
func TestReadJSONBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan bool, 1)
		conn := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			_, ok := edge.ReadJSON(w, r, limit)
			read <- ok
		})
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{}")
		conn.Close()
		if <-read {
			t.Error("half a body was taken for a whole one")
		}
	})
}
