package httpclient_test

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

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// A server that sends headers, interim responses or trailers without end ends its request,
// within little time and memory.
func TestResponsesWithoutEnd(t *testing.T) {
	const good = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, test := range map[string]struct {
		once, again string
		ok          bool // the response arrives, and its body fails
	}{
		"interim responses":       {"", "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n", false},
		"continue":                {"", "HTTP/1.1 100 Continue\r\n\r\n", false},
		"long interim responses":  {"", "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", 10_000) + "\r\n\r\n", false},
		"header fields":           {good, "X-Header: " + strings.Repeat("x", 1000) + "\r\n", false},
		"a header field":          {good + "X: ", strings.Repeat("x", 1000), false},
		"a status":                {"HTTP/1.1 200 ", strings.Repeat("x", 1000), false},
		"trailers":                {good + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", "X-Trailer: " + strings.Repeat("x", 1000) + "\r\n", true},
		"a chunk extension":       {good + "Transfer-Encoding: chunked\r\n\r\n2;x=", strings.Repeat("x", 1000), true},
		"empty lines":             {"", "\r\n", false},
		"a protocol of its own":   {"", "SSH-2.0-x\r\n", false},
		"interim, then too large": {"HTTP/1.1 103 Early Hints\r\n\r\n" + good, "X-Header: " + strings.Repeat("x", 1000) + "\r\n", false},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan int64, 1)
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				served <- 0
				return
			}
			defer conn.Close()
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				_, err = io.Copy(io.Discard, req.Body)
			}
			sent, _ := io.WriteString(conn, test.once)
			total := int64(sent)
			for err == nil && total < 64<<20 {
				sent, err = io.WriteString(conn, strings.Repeat(test.again, 1+10_000/len(test.again)))
				total += int64(sent)
			}
			served <- total
		}()
		network := httptransport.NewClient(nil).Transport.(*http.Transport)
		c := httpclient.New("http://"+listener.Addr().String(), &http.Client{Transport: network}, nil, nil)
		var progress httpclient.Progress
		res, err := c.Post(t.Context(), c.URL(), http.Header{"Content-Type": {"application/json"}}, []byte("{}"), &progress)
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
			res.Body.Close()
			if !test.ok {
				t.Errorf("%s: the response arrived: %d", name, res.StatusCode)
			}
		} else if !isNotReached(err) || progress.Delivery() != jsonrpc.MaybeExecuted {
			t.Errorf("%s: %v (%v)", name, err, progress.Delivery())
		}
		network.CloseIdleConnections()
		listener.Close()
		sent := <-served
		if err == nil || len(err.Error()) > 1000 || sent > 16<<20 {
			t.Errorf("%s: %.200v, after %d bytes", name, err, sent)
		}
	}
}

// The same over HTTP/2: a header that is too long ends its request.
func TestHTTP2HeadersThatAreTooLong(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/interim" {
			w.Header().Set("Link", strings.Repeat("x", 10_000))
			for range 10_000 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		} else {
			for i := range 1000 {
				w.Header().Set(fmt.Sprint("X-Header-", i), strings.Repeat("x", 10_000))
			}
		}
		w.WriteHeader(http.StatusOK)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	network := httptransport.NewClient(nil).Transport.(*http.Transport)
	network.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	t.Cleanup(func() {
		network.CloseIdleConnections()
		server.Close()
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, path := range []string{"/interim", "/header"} {
		_, _, err := post(t, httpclient.New(server.URL, &http.Client{Transport: network}, nil, nil), server.URL+path, "{}")
		if err == nil || !isNotReached(err) || len(err.Error()) > 1000 {
			t.Errorf("%s: %.300v", path, err)
		}
	}
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 64<<20 {
		t.Errorf("%d bytes are held", held)
	}
}

// An error contains no credentials of its request, even if the response repeats them.
func TestResponsesThatRepeatCredentials(t *testing.T) {
	const token, key, session = "token-0123456789-abcdefghijklmnopqrstuvwxyz.x_y~z", "key+0123456789/abcdef==", "cookie%200123456789"
	padding := 0
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		text := strings.Repeat("x", padding) + r.Header.Get("Authorization") + " " + r.Header.Get("X-Api-Key") + " " + r.Header.Get("Cookie")
		if r.URL.Path == "/redirect" {
			w.Header()["Location"] = []string{"http://evil.example/" + strings.Fields(text)[1]}
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer realm=\""+r.Header.Get("Authorization")+"\"")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, text)
	})
	header := func(_ context.Context, header http.Header) error {
		header.Set("Authorization", "Bearer "+token)
		header.Set("X-Api-Key", key)
		header.Set("Cookie", "a=b; session="+session)
		return nil
	}
	network := &http.Transport{}
	defer network.CloseIdleConnections()
	c := httpclient.New(server.URL, &http.Client{Transport: network}, header, nil)
	check := func(err error) {
		t.Helper()
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		for _, secret := range []string{token, key, session} {
			for n := 8; n <= len(secret); n++ {
				if strings.Contains(text, secret[:n]) {
					t.Fatalf("with %d bytes before: %q is in %s", padding, secret[:n], text)
				}
			}
		}
	}
	for padding = range 300 {
		res, err := c.Do(t.Context(), http.MethodGet, c.URL(), make(http.Header))
		if err != nil {
			t.Fatal(err)
		}
		refused := httpclient.ReadStatusError(res)
		res.Body.Close()
		if refused.Status != http.StatusInternalServerError || len(refused.Body) < min(padding, 200) || len(refused.Body) > 256 {
			t.Errorf("got %v", refused)
		}
		check(refused)
		if lines := refused.Header.Values("WWW-Authenticate"); len(lines) != 1 || strings.Contains(lines[0], token) {
			t.Errorf("the challenge is %q", lines)
		}
	}
	padding = 0
	_, err := c.Do(t.Context(), http.MethodGet, parsed(t, server.URL+"/redirect"), make(http.Header))
	if _, ok := errors.AsType[*httptransport.RedirectError](err); !ok {
		t.Errorf("got %v", err)
	}
	check(err)
}

// FuzzRedact checks that neither a credential nor the beginning of one at the end of a text
// remains.
func FuzzRedact(f *testing.F) {
	f.Add("Bearer token-0123456789", "token-0123456789")
	f.Add("x token-01", "token-0123456789")
	f.Add("aaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaa")
	f.Add("a%2Bbcdefghi+jkl a+bcdefghi+jkl", "a+bcdefghi+jkl")
	f.Fuzz(func(t *testing.T, text, secret string) {
		if len(secret) < 8 || strings.ContainsAny(secret, " \t;,=\"[]") {
			return
		}
		got := httpclient.SecretsOf(&http.Request{Header: http.Header{"Authorization": {"Bearer " + secret}, "Accept": {"application/json"}}}).Redact(text)
		if strings.Contains(got, secret) {
			t.Fatalf("%q remains in %q", secret, got)
		}
		for n := 8; n <= len(secret); n++ {
			if strings.HasSuffix(got, secret[:n]) {
				t.Fatalf("%q ends with the beginning of %q", got, secret)
			}
		}
		if kept := httpclient.SecretsOf(&http.Request{Header: http.Header{"Accept": {secret}}}).Redact(text); kept != text {
			t.Fatalf("%q became %q", text, kept)
		}
	})
}
