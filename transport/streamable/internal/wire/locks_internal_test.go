package wire

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// Events and comments do not mix, and nothing follows the end of the stream.
func TestEventStreamConcurrently(t *testing.T) {
	const rounds = 200
	w := httptest.NewRecorder()
	p := Start(w, 1<<60, time.Minute)
	send := func(int) {
		if err := p.Send(t.Context(), sse.Event{Data: []byte("{}")}); err != nil {
			t.Error(err)
		}
	}
	racetest.Together(rounds, send, send, func(int) { p.keepAlive() })
	racetest.Together(1, func(int) { p.Stop() }, func(int) { p.keepAlive() })
	body := w.Body.String()
	if n := strings.Count(body, "data: {}\n"); n != 2*rounds {
		t.Errorf("the client gets %d events, want %d:\n%.300s", n, 2*rounds, body)
	}
	if p.keepAlive(); w.Body.Len() != len(body) {
		t.Error("a comment follows the end of the stream")
	}
}
