package edge_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
)

// Requests as they come in on a connection, byte by byte, to a server on this machine.
func TestRawRequests(t *testing.T) {
	const (
		head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		body = "Content-Length: 2\r\n\r\n{}"
	)
	for name, c := range map[string]struct {
		raw    string
		status int
	}{
		"plain":                       {head + body, 200},
		"names in any case":           {"POST / HTTP/1.1\r\nhOsT: localhost\r\ncONTENT-tYPE: application/json\r\n" + body, 200},
		"origin in any case":          {head + "oRIGIN: https://evil.example\r\n" + body, 403},
		"no host":                     {"POST / HTTP/1.0\r\nContent-Type: application/json\r\n" + body, 403},
		"two hosts":                   {"POST / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n" + body, 400},
		"target of another name":      {"POST http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + body, 403},
		"two origins":                 {head + "Origin: http://localhost\r\nOrigin: http://localhost\r\n" + body, 403},
		"a listed origin and another": {head + "Origin: " + page + "\r\nOrigin: https://evil.example\r\n" + body, 403},
		"origin of nothing":           {head + "Origin:\r\n" + body, 403},
		"origin of spaces":            {head + "Origin: \t \r\n" + body, 403},
		"origin with spaces around":   {head + "Origin: \t" + page + " \r\n" + body, 200},
		"origin folded":               {head + "Origin: " + page + "\r\n .evil.example\r\n" + body, 403}, // RFC 9112, section 5.2: a space
		"two types":                   {head + "Content-Type: text/plain\r\n" + body, 415},
		"a type behind a comma":       {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain, application/json\r\n" + body, 415},
		"a simple type with a hint":   {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain;application/json\r\n" + body, 415},
		"encoding in any case":        {head + "content-encoding: GZIP\r\n" + body, 415},
		"nothing":                     {head + "Content-Length: 0\r\n\r\n", 200},
		"lengths that differ":         {head + "Content-Length: 1\r\n" + body, 400},
		"negative length":             {head + "Content-Length: -1\r\n\r\n", 400},
		"length and chunks":           {head + "Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200},
		"chunks with a trailer":       {head + "Transfer-Encoding: chunked\r\n\r\n1;x=y\r\n{\r\n1\r\n}\r\n0\r\nOrigin: https://evil.example\r\n\r\n", 200},
		"a chunk that is none":        {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400},
		"an endless chunk":            {head + "Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n" + strings.Repeat("x", 3*limit), 413},
		"an impossible chunk":         {head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}", 400},
		"a length beyond all numbers": {head + "Content-Length: 9223372036854775807\r\n\r\n", 413},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, nil, []string{page})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if g.Admit(w, r, "POST") {
					echoBody(w, r)
				}
			}))
			defer srv.Close()
			status, _ := exchange(t, srv, c.raw)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
		})
	}
}

// exchange sends bytes and reads one answer.
func exchange(t *testing.T, srv *httptest.Server, raw string) (status int, rest []byte) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, raw) // the server may have had enough of it
	}()
	defer func() { conn.Close(); <-written }()
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	rest, _ = io.ReadAll(resp.Body)
	if !resp.Close {
		return resp.StatusCode, rest
	}
	more, _ := io.ReadAll(in)
	return resp.StatusCode, append(rest, more...)
}

// What comes as the body of a request that was refused is no request.
func TestRefusedBodyIsNoRequest(t *testing.T) {
	const inner = "POST /secret HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	for name, head := range map[string]string{
		"host":           "POST / HTTP/1.1\r\nHost: evil.example\r\n",
		"origin":         "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n",
		"method":         "PUT / HTTP/1.1\r\nHost: localhost\r\n",
		"a body to GET":  "GET / HTTP/1.1\r\nHost: localhost\r\n",
		"type":           "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
		"encoding":       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n",
		"with a promise": "POST / HTTP/1.1\r\nHost: evil.example\r\nExpect: 100-continue\r\n",
	} {
		for way, framed := range map[string]string{
			"length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
			"chunks": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				g := guard(t, nil, nil)
				var served atomic.Int32
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					served.Add(1)
					if r.URL.Path == "/secret" {
						t.Error("the body was taken for a request")
					}
					if g.Admit(w, r, "POST") {
						echoBody(w, r)
					}
				}))
				defer srv.Close()
				status, rest := exchange(t, srv, head+framed)
				if status < 400 || bytes.Contains(rest, []byte("HTTP/1.1")) || served.Load() != 1 {
					t.Errorf("status %d, then %q; %d requests were served", status, rest, served.Load())
				}
			})
		}
	}
}

// The same over HTTP/2, where there is no connection to close.
func TestReadJSONOverHTTP2(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(echoBody))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for name, c := range map[string]struct {
		kind   string
		body   io.Reader
		length int64
		status int
	}{
		"known":         {"application/json", strings.NewReader("{}"), 2, 200},
		"unknown":       {"application/json", strings.NewReader("{}"), -1, 200},
		"as long as it": {"application/json", strings.NewReader(strings.Repeat("x", limit)), -1, 200},
		"too long":      {"application/json", strings.NewReader(strings.Repeat("x", limit+1)), -1, 413},
		"known too":     {"application/json", strings.NewReader(strings.Repeat("x", limit+1)), limit + 1, 413},
		"no JSON":       {"text/plain", strings.NewReader("{}"), 2, 415},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, io.NopCloser(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = c.length
		r.Header.Set("Content-Type", c.kind)
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if resp.ProtoMajor != 2 || resp.StatusCode != c.status {
			t.Errorf("%s: %s with status %d, want %d", name, resp.Proto, resp.StatusCode, c.status)
		}
		if got := resp.Header.Get("Connection"); got != "" {
			t.Errorf("%s: HTTP/2 has no header Connection: %s", name, got)
		}
		resp.Body.Close()
	}
}

// However a body comes, it is the same one.
func TestReadJSONOddReaders(t *testing.T) {
	text := strings.Repeat("0123456789", 2000)
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"byte by byte":   iotest.OneByteReader,
		"halves":         iotest.HalfReader,
		"end with bytes": iotest.DataErrReader,
	} {
		for _, length := range []int64{-1, int64(len(text))} {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set("Content-Type", "application/json")
			r.Body, r.ContentLength = io.NopCloser(reader(strings.NewReader(text))), length
			w := httptest.NewRecorder()
			if body, ok := edge.ReadJSON(w, r, limit); !ok || string(body) != text || cap(body) > 2*len(body)+4096 {
				t.Errorf("%s with length %d: %d bytes in %d, %s", name, length, len(body), cap(body), w.Body)
			}
			r.Body = io.NopCloser(reader(strings.NewReader(text)))
			if _, ok := edge.ReadJSON(httptest.NewRecorder(), r, int64(len(text)-1)); ok {
				t.Errorf("%s with length %d: a byte too many was taken", name, length)
			}
			r.Body, r.ContentLength = io.NopCloser(reader(strings.NewReader(text))), int64(len(text)+1)
			if _, ok := edge.ReadJSON(httptest.NewRecorder(), r, limit); ok {
				t.Errorf("%s: a body was taken that lacks a byte", name)
			}
		}
	}
}

// FuzzAdmit wants every request to be admitted or answered, in bounds and without a
// header that a page could use.
func FuzzAdmit(f *testing.F) {
	f.Add("POST", "localhost", page, "POST", "mcp-param-x, cookie", true)
	f.Add("OPTIONS", "localhost:80", page, "\x00", "mcp-param-\r\n, mcp-param-*", true)
	f.Add("OPTIONS", "[::1%25x]:", "null", "", ",,", false)
	f.Add("\xff", "\u017f", "https://app.example.com:443", "X", strings.Repeat("mcp-param-a,", 9), true)
	g := guard(f, nil, []string{page})
	methods := []string{"GET", "POST"}
	f.Fuzz(func(t *testing.T, method, host, origin, asked, names string, withOrigin bool) {
		r := request("GET", host, locals["loopback"])
		r.Method = method
		if withOrigin {
			r.Header["Origin"] = []string{origin}
		}
		r.Header["Access-Control-Request-Method"] = []string{asked}
		r.Header["Access-Control-Request-Headers"] = []string{names}
		w := &once{ResponseRecorder: httptest.NewRecorder()}
		admitted := g.Admit(w, r, methods...)
		if admitted != (w.answers == 0) || w.answers > 1 {
			t.Fatalf("admitted: %t, and answered %d times", admitted, w.answers)
		}
		if admitted && !slices.Contains(methods, method) {
			t.Fatalf("the method %q is admitted", method)
		}
		if w.Body.Len() > 4096 {
			t.Fatalf("an answer of %d bytes", w.Body.Len())
		}
		for name, values := range w.Header() {
			for _, value := range values {
				if strings.ContainsAny(value, "\r\n\x00") {
					t.Fatalf("%s is %q", name, value)
				}
			}
		}
		allowed := w.Header().Get("Access-Control-Allow-Origin")
		if allowed != "" && (allowed != origin || !strings.HasPrefix(strings.ToLower(allowed), page)) {
			t.Fatalf("%q may read answers to %q", allowed, origin)
		}
		for name := range strings.SplitSeq(w.Header().Get("Access-Control-Allow-Headers"), ", ") {
			if name == "*" || strings.Contains(name, "cookie") && !strings.HasPrefix(name, "mcp-param-") {
				t.Fatalf("pages may send the header %q", name)
			}
		}
	})
}

// once counts answers.
type once struct {
	*httptest.ResponseRecorder
	answers int
}

func (o *once) WriteHeader(status int) {
	o.answers++
	o.ResponseRecorder.WriteHeader(status)
}

// FuzzContentType wants nothing to be read that a page may send without asking: Fetch
// Standard, section "CORS-safelisted request-header".
func FuzzContentType(f *testing.F) {
	for _, line := range []string{"application/json", "application/json;charset=utf-8", "text/plain;a=application/json", "application/json\x00", "APPLICATION/JSON ; charset=\"UTF-8\"", "application/json,text/plain"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`))
		r.Header["Content-Type"] = []string{line}
		if _, ok := edge.ReadJSON(httptest.NewRecorder(), r, limit); !ok {
			return
		}
		kind, _, _ := strings.Cut(line, ";")
		if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
			t.Fatalf("a body of type %q is read", line)
		}
		if _, params, err := mime.ParseMediaType(line); err != nil || len(params) > 1 {
			t.Fatalf("a body of type %q is read: %v, %v", line, params, err)
		}
	})
}
