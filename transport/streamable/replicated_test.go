package streamable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A fleet is three replicas behind a balancer that sends each request to the next of them.
type fleet struct{ dialer transport.Dialer }

const (
	fleetSize = 3
	workers   = 30
)

// fleetRounds returns the number of rounds of each worker.
func fleetRounds() int {
	if racetest.Enabled {
		return 2
	}
	return 300 / workers
}

// newFleet serves replicas.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	shared := newStore(t)
	silent := log.New(io.Discard, "", 0)
	var proxies []http.Handler
	for range fleetSize {
		replica := serve(t, newFleetServer(shared), &streamable.Options{Logger: quiet})
		target, err := url.Parse(replica.http.URL)
		if err != nil {
			t.Fatal(err)
		}
		upstream := replica.http.Client().Transport.(*http.Transport)
		upstream.MaxIdleConnsPerHost = 2 * workers
		proxy := &httputil.ReverseProxy{
			Transport: upstream, FlushInterval: -1, ErrorLog: silent,
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		}
		proxies = append(proxies, proxy)
	}
	var next atomic.Uint64
	balancer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[next.Add(1)%fleetSize].ServeHTTP(w, r)
	}))
	balancer.Config.ErrorLog = silent
	balancer.Start()
	t.Cleanup(balancer.Close)
	return &fleet{streamable.Dial(balancer.URL, &streamable.DialOptions{Logger: quiet})}
}

func newFleetServer(shared store.Store) *server.Server {
	s := server.New(mcp.Implementation{Name: "fleet", Version: "1"}, &server.Options{
		Store: shared, StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}, Logger: quiet,
	})
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, in struct {
		Round int `json:"round"`
	}) (string, error) {
		name, err := server.Elicit[string](r, "name", fmt.Sprint("Who is in round ", in.Round, "?"))
		if err != nil {
			return "", err
		}
		sure, err := server.Elicit[bool](r, "sure", "Sure?")
		return fmt.Sprint(in.Round, name, sure), err
	})
	server.AddTool(s, server.Tool{Name: "detach"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Detach(10 * time.Millisecond)
		for i := range 3 {
			if err := r.Progress(ctx, float64(i+1), 0, ""); err != nil {
				return "", err
			}
		}
		return "arrived", nil
	})
	return s
}

// A visit is one worker's session.
type visit struct{ *client.Session }

// work opens a session of each worker and does the rounds of all concurrently. Each must succeed.
func (f *fleet) work(t *testing.T, era client.Era, round func(ctx context.Context, v *visit, i int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var (
		wg        sync.WaitGroup
		succeeded atomic.Int64
	)
	for worker := range workers {
		wg.Go(func() {
			session, err := client.Connect(ctx, f.dialer, &client.Options{Era: era, Elicit: answerQuestion})
			if err != nil {
				t.Error(err)
				return
			}
			v := &visit{session}
			defer v.Close()
			for i := range fleetRounds() {
				if err := round(ctx, v, i); err != nil {
					t.Errorf("worker %d, round %d: %v", worker, i, err)
				} else {
					succeeded.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if want := int64(workers * fleetRounds()); succeeded.Load() != want {
		t.Errorf("%d of %d rounds succeeded", succeeded.Load(), want)
	}
}

func answerQuestion(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	content := `{"value":"Ann"}`
	if params.Message == "Sure?" {
		content = `{"value":true}`
	}
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(content)}, nil
}

// walk calls a tool that reports three steps of progress, each of which must arrive once.
func (v *visit) walk(ctx context.Context, tool string) error {
	var (
		mu    sync.Mutex
		steps []float64
	)
	result, err := client.CallAs[string](ctx, v.Session, tool, nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, p.Progress)
	}})
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	if result != "arrived" || !slices.Equal(steps, []float64{1, 2, 3}) {
		return fmt.Errorf("the result is %q after the steps %v", result, steps)
	}
	return nil
}

// inEachEra runs a test with a fleet for clients of each era.
func inEachEra(t *testing.T, test func(t *testing.T, f *fleet, era client.Era)) {
	for name, era := range map[string]client.Era{"legacy": client.Legacy, "modern": client.Modern} {
		t.Run(name, func(t *testing.T) { test(t, newFleet(t), era) })
	}
}

// Questions are asked by one replica and answered at another one.
func TestReplicatedQuestions(t *testing.T) {
	inEachEra(t, func(t *testing.T, f *fleet, era client.Era) {
		f.work(t, era, func(ctx context.Context, v *visit, i int) error {
			got, err := client.CallAs[string](ctx, v.Session, "ask", map[string]int{"round": i}, nil)
			if want := fmt.Sprint(i, "Ann", true); err == nil && got != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return err
		})
	})
}

// A client that the tool has sent away gets the rest of the call at another replica.
func TestReplicatedDetachedCalls(t *testing.T) {
	inEachEra(t, func(t *testing.T, f *fleet, era client.Era) {
		f.work(t, era, func(ctx context.Context, v *visit, _ int) error { return v.walk(ctx, "detach") })
	})
}
