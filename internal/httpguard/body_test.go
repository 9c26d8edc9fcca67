package httpguard_test

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

	"github.com/dovetail-go/dovetail/internal/test/memnet"

	"github.com/dovetail-go/dovetail/internal/httpguard"
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
	if body, _, ok := httpguard.ReadJSON(w, r, limit, nil); ok {
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
		body, _, ok := httpguard.ReadJSON(w, r, limit, nil)
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

// The buffer of a body is proportional to what has arrived.
func TestReadJSONMemory(t *testing.T) {
	for range 2 { // after which nothing is left of what other bodies have had
		runtime.GC()
	}
	for claimed, most := range map[int64]int{1: 1, 1000: 1000, 65536: 16384, 4 << 20: 16384, 4<<20 - 1: 16384, -1: 4096} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", "application/json")
		liar := &breakingOff{}
		r.Body, r.ContentLength = io.NopCloser(liar), claimed
		w := httptest.NewRecorder()
		if _, _, ok := httpguard.ReadJSON(w, r, 4<<20, nil); ok {
			t.Errorf("a body of %d bytes that has none was read", claimed)
		}
		checkRefusal(t, w, http.StatusBadRequest)
		if liar.asked != most {
			t.Errorf("%d bytes were set aside for a body that claims %d, want %d", liar.asked, claimed, most)
		}
	}
}

// breakingOff is a body that fails on the first read.
type breakingOff struct{ asked int }

func (b *breakingOff) Read(p []byte) (int, error) {
	b.asked = len(p)
	return 0, io.ErrUnexpectedEOF
}

// pipeServer serves one connection in memory, for virtual time.
func pipeServer(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	network := memnet.New()
	srv := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(network); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	}()
	conn, err := network.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		srv.Close()
		<-done
	})
	return conn
}

// longBody is the length of a body that takes 97 s at the minimum rate.
const longBody = 97 << 14

func readLongBody(w http.ResponseWriter, r *http.Request) {
	if body, _, ok := httpguard.ReadJSON(w, r, longBody, nil); ok && len(body) != longBody {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// A body that is too slow is refused. A slow but steady one is not, whatever its length.
func TestReadJSONRate(t *testing.T) {
	for name, c := range map[string]struct {
		piece  int // bytes sent each second
		status int
		after  time.Duration
	}{
		"nothing comes":      {0, http.StatusRequestTimeout, 10 * time.Second},
		"a byte a second":    {1, http.StatusRequestTimeout, 10 * time.Second},
		"half the rate":      {8000, http.StatusRequestTimeout, 20 * time.Second},
		"just about enough":  {16 << 10, http.StatusOK, 96 * time.Second},
		"more than the rate": {24_000, http.StatusOK, 66 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := pipeServer(t, readLongBody)
				start := time.Now()
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", longBody)
				sending := make(chan struct{})
				go func() {
					defer close(sending)
					for sent := 0; c.piece > 0 && sent < longBody; sent += c.piece {
						if sent > 0 {
							<-time.After(time.Second)
						}
						if _, err := conn.Write(make([]byte, min(c.piece, longBody-sent))); err != nil {
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
				<-time.After(time.Second) // net/http lingers after a body that it has not read
			})
		})
	}
}

// The read deadline of a body does not affect the response or the next request.
func TestReadJSONLeavesNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			if _, _, ok := httpguard.ReadJSON(w, r, limit, nil); !ok {
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

// A refused client gets its answer immediately, and holds the connection only briefly.
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

// A client that disconnects during its body has sent no request.
func TestReadJSONBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan bool, 1)
		conn := pipeServer(t, func(w http.ResponseWriter, r *http.Request) {
			_, _, ok := httpguard.ReadJSON(w, r, limit, nil)
			read <- ok
		})
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{}")
		conn.Close()
		if <-read {
			t.Error("half a body was taken for a whole one")
		}
	})
}

// One chunk at 24,000 bytes a second is faster than 16 KiB a second.
func TestChunkAtAFairRateIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, readLongBody)
		start := time.Now()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", longBody)
		sending := make(chan struct{})
		go func() {
			defer close(sending)
			for sent := 0; sent < longBody; sent += 24_000 {
				if sent > 0 {
					<-time.After(time.Second)
				}
				if _, err := conn.Write(make([]byte, min(24_000, longBody-sent))); err != nil {
					return
				}
			}
			fmt.Fprint(conn, "\r\n0\r\n\r\n")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d after %v", resp.StatusCode, time.Since(start))
		}
		conn.Close()
		<-sending
	})
}

// A body that lacks only its last byte must not hold the connection longer than the free
// time.
func TestStalledBodyIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, echoBody)
		start := time.Now()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", limit)
		conn.Write(make([]byte, limit-1))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); resp.StatusCode != http.StatusRequestTimeout || took > 30*time.Second {
			t.Errorf("status %d after %v", resp.StatusCode, took)
		}
		conn.Close()
	})
}

// A body that is one byte too long is refused immediately.
func TestBugTooLongAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, echoBody)
		start := time.Now()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", 1<<40)
		conn.Write(make([]byte, limit+1))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); resp.StatusCode != http.StatusRequestEntityTooLarge || took > 0 {
			t.Errorf("status %d after %v", resp.StatusCode, took)
		}
		conn.Close()
	})
}
