package streamable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A fleet is three replicas behind a balancer that sends each request to the next of them.
type fleet struct {
	dialer  transport.Dialer
	servers []*server.Server
	books   [workers]atomic.Int64 // what all replicas read
}

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

// newFleet serves replicas. If mark is not empty, the balancer drops each connection after the first
// event of a response that contains mark.
func newFleet(t *testing.T, mark string) *fleet {
	t.Helper()
	f := new(fleet)
	shared := newStore(t)
	silent := log.New(io.Discard, "", 0)
	var proxies []http.Handler
	for range fleetSize {
		s := f.newServer(shared)
		f.servers = append(f.servers, s)
		replica := serve(t, s, &streamable.Options{Logger: quiet})
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
		// net/http closes a connection to a replica that answers before it has read the whole body.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has disconnected
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if mark != "" {
			w = &cutWriter{ResponseWriter: w, mark: []byte(mark)}
		}
		proxies[next.Add(1)%fleetSize].ServeHTTP(w, r)
	}))
	balancer.Config.ErrorLog = silent
	balancer.Start()
	t.Cleanup(balancer.Close)
	f.dialer = streamable.Dial(balancer.URL, &streamable.DialOptions{Logger: quiet})
	return f
}

func (f *fleet) newServer(shared store.Store) *server.Server {
	s := server.New(mcp.Implementation{Name: "fleet", Version: "1"}, &server.Options{
		Store: shared, Logger: quiet,
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
	walk := func(ctx context.Context, r *server.Request) (string, error) {
		for i := range 3 {
			if err := r.Progress(ctx, float64(i+1), 0, ""); err != nil {
				return "", err
			}
		}
		return "arrived", nil
	}
	server.AddTool(s, server.Tool{Name: "walk"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		return walk(ctx, r)
	})
	server.AddTool(s, server.Tool{Name: "detach"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Detach(10 * time.Millisecond)
		return walk(ctx, r)
	})
	server.AddTemplate(s, server.Template{URITemplate: "book:{number}", Name: "book"}, func(_ context.Context, _ *server.Request, in struct {
		Number int `json:"number"`
	}) (string, error) {
		return fmt.Sprint(f.books[in.Number].Load()), nil
	})
	return s
}

// A cutWriter drops the connection after the first event that contains mark.
type cutWriter struct {
	http.ResponseWriter
	mark []byte
}

func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *cutWriter) Write(p []byte) (int, error) {
	at := bytes.Index(p, w.mark)
	if at < 0 {
		return w.ResponseWriter.Write(p)
	}
	if end := bytes.Index(p[at:], []byte("\n\n")); end >= 0 {
		p = p[:at+end+2]
	}
	if _, err := w.ResponseWriter.Write(p); err != nil {
		return 0, err
	}
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	panic(http.ErrAbortHandler)
}

// A visit is one worker's session.
type visit struct {
	*client.Session
	worker  int
	changes chan mcp.Change
}

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
			v := &visit{worker: worker, changes: make(chan mcp.Change, 1000)}
			session, err := client.Connect(ctx, f.dialer, &client.Options{
				Era: era, Elicit: v.elicit,
				OnChange: func(_ context.Context, change mcp.Change) { v.changes <- change },
			})
			if err != nil {
				t.Error(err)
				return
			}
			v.Session = session
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

func (v *visit) elicit(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
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
func inEachEra(t *testing.T, mark string, test func(t *testing.T, f *fleet, era client.Era)) {
	for name, era := range map[string]client.Era{"legacy": client.Legacy, "modern": client.Modern} {
		t.Run(name, func(t *testing.T) { test(t, newFleet(t, mark), era) })
	}
}

// Questions are asked by one replica and answered at another one.
func TestReplicatedQuestions(t *testing.T) {
	inEachEra(t, "", func(t *testing.T, f *fleet, era client.Era) {
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
	inEachEra(t, "", func(t *testing.T, f *fleet, era client.Era) {
		f.work(t, era, func(ctx context.Context, v *visit, _ int) error { return v.walk(ctx, "detach") })
	})
}

// A client that has lost its connection gets the rest of the call at another replica. 2026-07-28
// has no resumption of calls.
func TestReplicatedCallsAreResumed(t *testing.T) {
	f := newFleet(t, `"progress":1`)
	f.work(t, client.Legacy, func(ctx context.Context, v *visit, _ int) error { return v.walk(ctx, "walk") })
}

// update changes the book of a worker, which all replicas see, and waits until the client has read the new
// state because of a notice.
func (f *fleet) update(ctx context.Context, v *visit) error {
	uri := fmt.Sprint("book:", v.worker)
	want := fmt.Sprint(f.books[v.worker].Add(1))
	f.servers[(v.worker+int(f.books[v.worker].Load()))%fleetSize].ResourceUpdated(uri) // at any replica
	for {
		select {
		case change := <-v.changes:
			if change.URI != uri && change.URI != "" { // lists may have changed while no replica had the stream
				return fmt.Errorf("the client is notified of %+v, not only of %s", change, uri)
			}
		case <-time.After(20 * time.Second):
			return errors.New("there is no notice")
		}
		read, err := v.ReadResource(ctx, uri, nil)
		if err != nil {
			return err
		}
		if got := read.Contents[0].(*mcp.TextResourceContents).Text; got == want {
			return nil
		}
	}
}

func (v *visit) subscribe(ctx context.Context) (*client.Subscription, error) {
	return v.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{fmt.Sprint("book:", v.worker)}})
}

// A subscription has effect at all replicas.
func TestReplicatedSubscriptions(t *testing.T) {
	inEachEra(t, "", func(t *testing.T, f *fleet, era client.Era) {
		f.work(t, era, func(ctx context.Context, v *visit, _ int) error {
			sub, err := v.subscribe(ctx)
			if err != nil {
				return err
			}
			defer sub.Close()
			return f.update(ctx, v)
		})
	})
}

// A subscription whose connection is lost after each notice goes on at another replica. The client
// of 2026-07-28 subscribes again itself.
func TestReplicatedSubscriptionsAreResumed(t *testing.T) {
	f := newFleet(t, `"notifications/resources/updated"`)
	var subscribed [workers]bool
	f.work(t, client.Legacy, func(ctx context.Context, v *visit, _ int) error {
		if !subscribed[v.worker] {
			if _, err := v.subscribe(ctx); err != nil { // ends with the session
				return err
			}
			subscribed[v.worker] = true
		}
		return f.update(ctx, v)
	})
}
