package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

// crowd is how many clients there are at the same time.
const crowd = 64

// Many clients, all of which count their requests from the same number, as does the
// server those that it makes of them, get their own answers and questions.
func TestAnswersReachTheirCallers(t *testing.T) {
	for _, mode := range []struct {
		transport string
		era       client.Era
	}{
		{"streamable", client.Modern}, {"streamable", client.Legacy}, {"sse", client.Legacy}, {"ws", client.Modern}, {"ws", client.Legacy},
	} {
		name := mode.transport + " modern"
		if mode.era == client.Legacy {
			name = mode.transport + " legacy"
		}
		t.Run(name, func(t *testing.T) {
			each := scaled(t, 1_280, 200_000) / crowd
			target := newTarget()
			mux, closeAll := target.mux()
			httpServer := httptest.NewServer(mux)
			defer httpServer.Close()
			defer closeAll()

			var answers, foreign atomic.Int64
			began := time.Now()
			var all sync.WaitGroup
			for i := range crowd {
				all.Go(func() {
					v := &visitor{TB: t, name: fmt.Sprintf("%s %d", name, i)}
					v.visit(dialerOptions{mode.transport, httpServer.URL, mode.era}, each)
					answers.Add(v.answers)
					foreign.Add(v.foreign)
				})
			}
			all.Wait()
			took := time.Since(began)
			t.Logf("%d answers, %d of them foreign, in %v: %.0f a second", answers.Load(), foreign.Load(), took.Round(time.Millisecond), float64(answers.Load())/took.Seconds())
			if want := int64(crowd * each); answers.Load() != want || foreign.Load() > 0 {
				t.Errorf("%d answers, %d foreign, want %d and none", answers.Load(), foreign.Load(), want)
			}
		})
	}
}

type dialerOptions struct {
	transport, url string
	era            client.Era
}

// A visitor calls, and is asked. What it says and hears holds its name.
type visitor struct {
	testing.TB
	name             string
	mu               sync.Mutex
	asked            string // what the question has to say
	answers, foreign int64
}

// askEvery is in how many calls the visitor is asked once.
const askEvery = 10

func (v *visitor) visit(to dialerOptions, calls int) {
	ctx, cancel := context.WithTimeout(v.Context(), 10*patience)
	defer cancel()
	session, err := client.Connect(ctx, dialerOf(to.transport, to.url), &client.Options{Era: to.era, Elicit: v.elicit})
	if err != nil {
		v.Errorf("%s: %v", v.name, err)
		return
	}
	defer session.Close()
	for i := range calls {
		nonce := fmt.Sprintf("%s, call %d", v.name, i)
		tool, want := "echo", nonce
		if i%askEvery == 0 {
			tool, want = "ask", "the answer to "+nonce
			v.expect(nonce)
		}
		got, err := echoed(ctx, session, tool, nonce)
		if err != nil {
			v.Errorf("%s: %v", nonce, err)
			return
		}
		v.answers++
		if got != want {
			v.foreign++
			v.Errorf("%s was answered with %q", nonce, got)
		}
	}
}

func (v *visitor) expect(nonce string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = nonce
}

// elicit answers a question, which must be the visitor's own.
func (v *visitor) elicit(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if params.Message != v.asked {
		v.Errorf("%s was asked %q, want %q", v.name, params.Message, v.asked)
	}
	content, err := json.Marshal(echoIn{"the answer to " + params.Message})
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, err
}
