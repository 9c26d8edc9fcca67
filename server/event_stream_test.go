package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A streamRecorder is a client that records the notifications that it gets.
type streamRecorder struct {
	conn transport.Conn
	mu   sync.Mutex
	got  []*jsonrpc.Request
}

func (r *streamRecorder) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return errors.New("a server sends no requests")
}

func (r *streamRecorder) HandleNotification(_ jsonrpc.Peer, n *jsonrpc.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, &jsonrpc.Request{Method: n.Method, Params: append([]byte(nil), n.Params...)})
}

// NotifyCancelled cancels a stream as clients do over stdio.
func (r *streamRecorder) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, _ error) {
	from.Notify(context.Background(), mcp.NotificationCancelled, &mcp.CancelledParams{RequestID: id})
}

// newStreamRecorder connects to a server.
func newStreamRecorder(t *testing.T, s *server.Server) *streamRecorder {
	t.Helper()
	r := &streamRecorder{}
	conn, err := transport.Pipe(s).Dial(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.conn = conn
	t.Cleanup(func() { conn.Close() })
	return r
}

// stream makes a call of events/stream.
func (r *streamRecorder) stream(ctx context.Context, members string) (*jsonrpc.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, 1000*time.Hour)
	defer cancel()
	return r.conn.Call(ctx, mcp.MethodEventsStream, mcp.Raw(`{`+members+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`))
}

// take returns the notifications since the last call: their methods, with the id of an event and
// truncated.
func (r *streamRecorder) take(t *testing.T) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, n := range r.got {
		members, err := jsonscan.ReadObject(n.Params)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(n.Method, "notifications/events/")
		switch n.Method {
		case mcp.NotificationEvent:
			text = jsonscan.Unquote(members.Get("eventId"))
		case mcp.NotificationEventActive:
			if string(members.Get("truncated")) == "true" {
				text += " truncated"
			}
		case mcp.NotificationEventTerminated:
			code, _ := jsonscan.Find(members.Get("error"), "code")
			text += " " + string(code)
		}
		if n.Method != mcp.NotificationEventTerminated && jsonscan.KindOf(members.Get("cursor")) != jsonscan.String {
			t.Errorf("%s has no cursor: %s", n.Method, n.Params)
		}
		if id, _ := jsonscan.Find(members.Get("_meta"), mcp.MetaSubscriptionID); jsonscan.KindOf(id) != jsonscan.Number {
			t.Errorf("%s has no id of the stream: %s", n.Method, n.Params)
		}
		all = append(all, text)
	}
	r.got = nil
	return strings.Join(all, ", ")
}

const streamNow = `"name":"incident.created","cursor":null`

func TestStreamOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		topic := addIncidents(s)
		r := newStreamRecorder(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := r.stream(ctx, streamNow+`,"arguments":{"severity":"P1"}`)
			ended <- err
		}()
		want := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := r.take(t); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		want("active")
		publish(t, topic, incident{ID: "a", Severity: "P1"}, &server.PublishOptions{ID: "evt_1"})
		publish(t, topic, incident{ID: "b", Severity: "P2"}, &server.PublishOptions{ID: "evt_2"})
		publish(t, topic, incident{ID: "c", Severity: "P1"}, &server.PublishOptions{ID: "evt_3"})
		want("evt_1, evt_3")
		<-time.After(31 * time.Second)
		want("heartbeat, heartbeat")
		cancel()
		<-ended
		synctest.Wait()
		publish(t, topic, incident{ID: "d", Severity: "P1"}, nil)
		<-time.After(time.Minute)
		want("")
	})
}

// A stream that the server ends has a result with the id of the stream.
func TestShutdownEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		addIncidents(s)
		r := newStreamRecorder(t, s)
		ended := make(chan string)
		go func() {
			resp, err := r.stream(t.Context(), streamNow)
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- string(resp.Result)
		}()
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if result := <-ended; !strings.Contains(result, `"resultType":"complete"`) || !strings.Contains(result, `"io.modelcontextprotocol/subscriptionId":1`) {
			t.Errorf("the result is %s", result)
		}
	})
}

// The position of a quiet stream stays in the log: the client can continue after a day.
func TestQuietStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		s := newServer(&server.Options{Store: shared})
		topic := addIncidents(s)
		r := newStreamRecorder(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.stream(ctx, streamNow)
		}()
		<-time.After(24 * time.Hour)
		r.mu.Lock()
		last, _ := jsonscan.Find(r.got[len(r.got)-1].Params, "cursor")
		r.mu.Unlock()
		cancel()
		<-ended
		synctest.Wait()
		r.take(t)
		publish(t, topic, incident{ID: "a"}, &server.PublishOptions{ID: "evt_1"})
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.stream(ctx, `"name":"incident.created","cursor":`+string(last))
		if got := r.take(t); got != "active, evt_1" {
			t.Errorf("got %q", got)
		}
	})
}

// A stream that begins with a stale cursor, or with an age, says that events may be missing.
func TestTruncatedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		topic := addIncidents(s)
		cursor := poll(t, connectInMemory(t, s, nil), pollNow).Cursor
		r := newStreamRecorder(t, s)
		for id := range 3 {
			publish(t, topic, incident{ID: "old"}, &server.PublishOptions{ID: fmt.Sprint("old_", id)})
		}
		<-time.After(time.Minute)
		publish(t, topic, incident{ID: "new"}, &server.PublishOptions{ID: "new"})
		for members, want := range map[string]string{
			fmt.Sprintf(`"cursor":%q`, *cursor):                  "active, old_0, old_1, old_2, new",
			fmt.Sprintf(`"cursor":%q,"maxAgeMs":30000`, *cursor): "active, active truncated, new",
			`"cursor":"stale"`:                                   "active truncated",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r.stream(ctx, `"name":"incident.created",`+members)
			cancel()
			synctest.Wait()
			if got := r.take(t); got != want {
				t.Errorf("%s: got %q, want %q", members, got, want)
			}
		}
		<-time.After(time.Hour)
		publish(t, topic, incident{ID: "last"}, &server.PublishOptions{ID: "last"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.stream(ctx, fmt.Sprintf(`"name":"incident.created","cursor":%q`, *cursor))
		if got := r.take(t); got != "active, active truncated, last" {
			t.Errorf("after an hour: %q", got)
		}
	})
}

// A store that is not able to answer for some time ends a stream; nothing is lost.
type failingLog struct {
	store.Store
	down atomic.Bool
}

func (f *failingLog) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	if f.down.Load() {
		return 0, errDown
	}
	return f.Store.Append(ctx, stream, data)
}

func TestStoreFailsUnderAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := &failingLog{Store: newStore(t)}
		s := newServer(&server.Options{Store: failing, Logger: discardLogger()})
		topic := addIncidents(s)
		r := newStreamRecorder(t, s)
		ended := make(chan error)
		go func() {
			_, err := r.stream(t.Context(), streamNow)
			ended <- err
		}()
		synctest.Wait()
		failing.down.Store(true)
		if err := topic.Publish(t.Context(), incident{}, nil); !errors.Is(err, errDown) {
			t.Errorf("publishing gives %v", err)
		}
		<-time.After(2 * time.Minute) // a mark cannot be added
		wantCode(t, <-ended, jsonrpc.InternalError)
	})
}

func TestLimitOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		addIncidents(s)
		r := newStreamRecorder(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		var streams sync.WaitGroup
		for range 128 {
			streams.Go(func() { r.stream(ctx, streamNow) })
		}
		synctest.Wait()
		_, err := r.stream(ctx, streamNow)
		wantCode(t, err, mcp.CodeResourceExhausted)
		// Other calls are not affected.
		if _, err := r.conn.Call(ctx, mcp.MethodEventsList, mcp.Raw(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`)); err != nil {
			t.Error(err)
		}
		cancel()
		streams.Wait()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.stream(ctx, streamNow); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after all ended: %v", err)
		}
	})
}

// An addition to a schema does not end streams; other changes do.
func TestChangedSchemas(t *testing.T) {
	type more struct {
		Severity string `json:"severity,omitempty" jsonschema:"enum=P1,enum=P2"`
		Redact   bool   `json:"redact,omitempty"`
		Team     string `json:"team,omitempty"`
	}
	type narrower struct {
		Severity string `json:"severity"`
		Redact   bool   `json:"redact,omitempty"`
	}
	type extended struct {
		incident
		Team string `json:"team"`
	}
	entry := func(e *server.Entry, _ any, err error) *server.Entry {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for name, test := range map[string]struct {
		replacement func() *server.Entry
		want        string
	}{
		"description": {func() *server.Entry {
			e, topic, err := server.NewEvent[incidentArguments, incident](server.Event{Name: "incident.created", Description: "Other"}, nil)
			return entry(e, topic, err)
		}, ""},
		"optional argument": {func() *server.Entry {
			e, topic, err := server.NewEvent[more, incident](server.Event{Name: "incident.created"}, nil)
			return entry(e, topic, err)
		}, ""},
		"more payload": {func() *server.Entry {
			e, topic, err := server.NewEvent[incidentArguments, extended](server.Event{Name: "incident.created"}, nil)
			return entry(e, topic, err)
		}, ""},
		"required argument": {func() *server.Entry {
			e, topic, err := server.NewEvent[narrower, incident](server.Event{Name: "incident.created"}, nil)
			return entry(e, topic, err)
		}, "terminated -32026"},
		"other payload": {func() *server.Entry {
			e, topic, err := server.NewEvent[incidentArguments, struct {
				ID int `json:"id"`
			}](server.Event{Name: "incident.created"}, nil)
			return entry(e, topic, err)
		}, "terminated -32026"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(nil)
				addIncidents(s)
				r := newStreamRecorder(t, s)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					r.stream(ctx, streamNow)
				}()
				synctest.Wait()
				r.take(t)
				if err := s.Replace(test.replacement()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := r.take(t); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				cancel()
				<-ended
			})
		})
	}
}
