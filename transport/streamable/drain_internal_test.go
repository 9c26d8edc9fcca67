package streamable

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// With HTTP/2, a request is awaited although its connection also has a stream.
func TestDrainAwaitsRequestsBesideStreams(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDrain(listener.(*net.TCPListener))
	release, entered := make(chan struct{}), make(chan string, 2)
	issued := httptest.NewUnstartedServer(d.wrap(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		entered <- r.Method + r.Proto
		<-release
	})))
	issued.EnableHTTP2 = true
	issued.Config.ConnState, issued.Config.ConnContext = d.track, withConn
	issued.StartTLS()
	defer issued.Close()
	defer close(release)
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		req, _ := http.NewRequestWithContext(t.Context(), method, issued.URL, nil)
		resp, err := issued.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		<-entered
	}
	if d.idle() {
		t.Error("the POST has no answer, and is not awaited")
	}
}
