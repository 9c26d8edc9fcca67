package httpguard_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

func BenchmarkAdmit(b *testing.B) {
	g := guard(b, []string{"example.com"}, []string{page})
	for name, r := range map[string]*http.Request{
		"local":  request("POST", "localhost:8080", locals["loopback"]),
		"listed": request("POST", "example.com:8443", locals["public"]),
	} {
		b.Run(name, func(b *testing.B) {
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				if !g.Admit(w, r, "GET", "POST", "DELETE") {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// deadlines is a response writer that has read deadlines, as real ones do.
type deadlines struct {
	httptest.ResponseRecorder
	last time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.last = t
	return nil
}

// reusable is a request whose body can be read again.
func reusable(size int) (r *http.Request, reset func()) {
	text := make([]byte, size)
	body := bytes.NewReader(text)
	r = httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = io.NopCloser(body), int64(size)
	return r, func() { body.Reset(text) }
}

func BenchmarkReadJSON(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "10KB": 10_000, "1MB": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			r, reset := reusable(size)
			w := &deadlines{}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				reset()
				if _, _, ok := httpguard.ReadJSON(w, r, 4<<20, nil); !ok {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	g := guard(t, []string{"example.com"}, []string{page})
	r, reset := reusable(10_000)
	admitted := request("POST", "localhost:8080", locals["loopback"])
	w := &deadlines{}
	for name, c := range map[string]struct {
		run  func()
		want float64
	}{
		"Admit": {func() { g.Admit(w, admitted, "GET", "POST", "DELETE") }, 0},
		"ReadJSON": {func() {
			reset()
			httpguard.ReadJSON(w, r, 4<<20, nil)
		}, 1},
	} {
		if got := testing.AllocsPerRun(100, c.run); got != c.want {
			t.Errorf("%s allocates %v times, want %v", name, got, c.want)
		}
	}
	if !w.last.IsZero() {
		t.Error("a deadline is left behind")
	}
}
