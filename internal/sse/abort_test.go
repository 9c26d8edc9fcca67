package sse_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// Abort may come at any time, also when the handler has just returned.
func TestAbortAfterCloseDoesNothing(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			streams := make(chan *sse.Stream, 1)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				s := sse.Start(w, time.Second)
				streams <- s
				s.Close()
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			io.ReadAll(resp.Body)
			resp.Body.Close()
			(<-streams).Abort()
		})
	}
}

func TestAbortDoesNotSpoilTheNextRequest(t *testing.T) {
	streams := make(chan *sse.Stream, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			s := sse.Start(w, time.Second)
			streams <- s
			s.Close()
			return
		}
		(<-streams).Abort()
		fmt.Fprint(w, "ok")
	}))
	defer server.Close()
	conn, _ := net.Dial("tcp", server.Listener.Addr().String())
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, path := range []string{"/stream", "/after"} {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		io.ReadAll(resp.Body)
	}
}
