package edge_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/internal/edge"
)

// A hoarder keeps what it was given, as HTTP/2 may.
type hoarder struct {
	*httptest.ResponseRecorder
	kept []byte
}

func (h *hoarder) Write(p []byte) (int, error) {
	h.kept = p
	return 0, http.ErrHandlerTimeout
}

func TestWritersLetGo(t *testing.T) {
	for major, want := range map[int]string{1: "other", 2: "first"} {
		h := &hoarder{ResponseRecorder: httptest.NewRecorder()}
		w := edge.Copies(h, &http.Request{ProtoMajor: major})
		memory := []byte("first")
		if n, err := w.Write(memory); n != 0 || err != http.ErrHandlerTimeout {
			t.Errorf("HTTP/%d: Write gives %d, %v", major, n, err)
		}
		copy(memory, "other")
		if string(h.kept) != want {
			t.Errorf("HTTP/%d: %q was kept, want %q", major, h.kept, want)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("HTTP/%d: flushing: %v", major, err)
		}
	}
}
