package streamable_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A wanderer is a client that hangs up at any time, in the middle of an event or before
// its old response has ended, and comes back where it was.
type wanderer struct {
	*testing.T
	web     *httptest.Server
	session string
	random  *rand.Rand
	last    string
}

func (w *wanderer) request(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.web.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
	}
	if w.last != "" {
		req.Header.Set("Last-Event-ID", w.last)
	}
	return w.web.Client().Do(req)
}

// read reads for a while, and returns the messages.
func (w *wanderer) read(resp *http.Response) (got []string) {
	events := sse.NewReader(io.LimitReader(resp.Body, w.random.Int64N(4000)), 1<<20)
	for {
		event, err := events.Next()
		if err != nil {
			return got
		}
		w.last = event.ID
		if len(event.Data) > 0 {
			got = append(got, string(event.Data))
		}
	}
}

// However often a client comes and goes, it gets every message of its call once, in
// order.
func TestWanderingClients(t *testing.T) {
	const steps = 200
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			endpoint := streamable.Handler(newServer(), nil)
			web := httptest.NewUnstartedServer(endpoint)
			web.EnableHTTP2 = http2
			web.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that were broken off
			web.StartTLS()
			defer web.Close()
			defer endpoint.Close()
			var all sync.WaitGroup
			for i := range 8 {
				w := &wanderer{T: t, web: web, random: rand.New(rand.NewPCG(1, uint64(i)))}
				all.Go(func() { w.wander(steps) })
			}
			all.Wait()
		})
	}
}

func (w *wanderer) wander(steps int) {
	resp, err := w.request(w.Context(), http.MethodPost, initialize(mcp.Version20251125))
	if err != nil {
		w.Error(err)
		return
	}
	w.session = resp.Header.Get("Mcp-Session-Id")
	resp.Body.Close()
	ctx, hangUp := context.WithCancel(w.Context())
	resp, err = w.request(ctx, http.MethodPost, call(1, "steps", fmt.Sprintf(`{"a":%d,"b":0}`, steps)))
	var got []string
	for range 1000 {
		if err != nil || resp.StatusCode != http.StatusOK {
			w.Errorf("after %q: %v, %v", w.last, resp, err)
			break
		}
		got = append(got, w.read(resp)...)
		if len(got) > 0 && strings.Contains(got[len(got)-1], `"result"`) {
			break
		}
		if w.last == "" { // too early: nobody can come back
			got = append(got, w.read(resp)...)
			if w.last == "" {
				continue
			}
		}
		body, leave := resp.Body, hangUp
		ctx, hangUp = context.WithCancel(w.Context())
		if w.random.IntN(2) == 0 {
			leave()
			body.Close()
			resp, err = w.request(ctx, http.MethodGet, "")
		} else { // the old response is still there
			resp, err = w.request(ctx, http.MethodGet, "")
			leave()
			body.Close()
		}
	}
	hangUp()
	if err == nil {
		resp.Body.Close()
	}
	for i, message := range got {
		want := fmt.Sprintf(`"progress":%d,`, i+1)
		if i == steps {
			want = `"text":"done"`
		}
		if !strings.Contains(message, want) {
			w.Errorf("message %d is %s, want it to contain %s", i, message, want)
			break
		}
	}
	if len(got) != steps+1 {
		w.Errorf("%d messages came, want %d", len(got), steps+1)
	}
}
