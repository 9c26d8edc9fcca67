package httptransport_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A header that is longer than the limit is refused before the handler runs.
func TestServerLimitsHeaders(t *testing.T) {
	web := httptransport.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	defer func() {
		web.Close()
		<-served
	}()
	client := httptransport.NewClient(func(settings *http.Transport) { settings.DisableKeepAlives = true })
	for length, want := range map[int]int{0: http.StatusOK, 15 << 10: http.StatusOK, 24 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X", strings.Repeat("x", length))
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("a header of %d bytes: got status %d, want %d", length, res.StatusCode, want)
		}
	}
	if web.ReadHeaderTimeout <= 0 || web.IdleTimeout <= 0 || web.WriteTimeout != 0 {
		t.Errorf("got the timeouts %v, %v and %v, want the first two and none for streams", web.ReadHeaderTimeout, web.IdleTimeout, web.WriteTimeout)
	}
}
