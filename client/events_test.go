package client_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

type order struct {
	Number int `json:"number"`
}

type orderFilter struct {
	Odd bool `json:"odd,omitempty"`
}

// newOrders returns a server with an event.
func newOrders(opts *server.Options) (*server.Server, *server.Topic[order]) {
	s := server.New(mcp.Implementation{Name: "orders", Version: "1"}, opts)
	topic := server.AddEvent(s, server.Event{Name: "order.placed"}, func(_ *mcp.Caller, in orderFilter, o order) (order, bool) {
		return o, !in.Odd || o.Number%2 == 1
	})
	return s, topic
}

func place(t testing.TB, topic *server.Topic[order], numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		if err := topic.Publish(context.Background(), order{n}, &server.PublishOptions{ID: fmt.Sprint("evt_", n)}); err != nil {
			t.Fatal(err)
		}
	}
}

func connectTo(t testing.TB, dialer transport.Dialer) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

var bothModes = []mcp.DeliveryMode{mcp.DeliveryPush, mcp.DeliveryPoll}

// wantOdd reads the odd ones of five events.
func wantOdd(t *testing.T, session *client.Session, topic *server.Topic[order], mode mcp.DeliveryMode) {
	begun := time.Now().Truncate(time.Millisecond) // the precision of an event's time
	began, published := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(published)
		<-began
		place(t, topic, 1, 2, 3, 4, 5)
	}()
	defer func() { <-published }()
	want, begin := 1, sync.OnceFunc(func() { close(began) })
	opts := &client.EventsOptions{Delivery: mode, OnCursor: func(string) { begin() }}
	for e, err := range client.Events[order](t.Context(), session, "order.placed", orderFilter{Odd: true}, opts) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Payload.Number != want || e.ID != fmt.Sprint("evt_", want) || e.Name != "order.placed" || e.Time.Before(begun) || e.Time.After(time.Now()) {
			t.Errorf("got %+v, want %d", e, want)
		}
		if want += 2; want > 5 {
			break
		}
	}
}

func TestEvents(t *testing.T) {
	s, topic := newOrders(nil)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	wantOdd(t, connectTo(t, transporttests.Dialer(t, s)), topic, "")
}

func TestPolledEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, topic := newOrders(nil)
		wantOdd(t, connectTo(t, transport.Pipe(s)), topic, mcp.DeliveryPoll)
	})
}

// The mode is chosen by what the server offers.
func TestEventsChooseTheMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ delivery, method string }{
			{`["poll","push"]`, mcp.MethodEventsStream}, {`["webhook","poll"]`, mcp.MethodEventsPoll}, {`["webhook"]`, ""}, {`[]`, ""},
		} {
			var called atomic.Value
			called.Store("")
			s := server.New(mcp.Implementation{Name: "s", Version: "1"}, nil)
			entry := &server.Entry{Target: mcp.Target{
				Kind: mcp.KindEvent, Name: "e", Definition: mcp.NewDefinition([]byte(`{"name":"e","delivery":` + test.delivery + `}`)),
			}, Handle: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				called.Store(call.Method())
				return nil, &jsonrpc.Error{Code: mcp.CodeForbidden, Message: "stop"}
			}}
			if err := s.Replace(entry); err != nil {
				t.Fatal(err)
			}
			session := connectTo(t, transport.Pipe(s))
			for _, err := range client.Events[order](t.Context(), session, "e", nil, nil) {
				if test.method != "" && !client.IsForbidden(err) || test.method == "" && err == nil {
					t.Errorf("%s: the error is %v", test.delivery, err)
				}
			}
			if called.Load() != test.method {
				t.Errorf("%s: the client called %q", test.delivery, called.Load())
			}
		}
	})
}

func TestInvalidSubscriptions(t *testing.T) {
	s, _ := newOrders(nil)
	session := connectTo(t, transport.Pipe(s))
	none := connectTo(t, transport.Pipe(server.New(mcp.Implementation{Name: "s", Version: "1"}, nil)))
	for name, test := range map[string]struct {
		session   *client.Session
		event     string
		arguments any
		opts      *client.EventsOptions
		want      string
	}{
		"no events": {session: none, event: "order.placed", want: "does not offer events"},
		"unknown":   {session: session, event: "nothing", want: "no event"},
		"arguments": {session: session, event: "order.placed", arguments: []int{1}, want: "object"},
		"invalid":   {session: session, event: "order.placed", arguments: json.RawMessage(`{"odd":7}`), want: "-32602"},
		"mode":      {session: session, event: "order.placed", opts: &client.EventsOptions{Delivery: mcp.DeliveryWebhook}, want: "delivery mode"},
	} {
		count := 0
		for _, err := range client.Events[order](t.Context(), test.session, test.event, test.arguments, test.opts) {
			if count++; err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		if count != 1 {
			t.Errorf("%s: %d results", name, count)
		}
	}
}

// A flakyDialer dials a server that can be replaced, and cuts connections.
type flakyDialer struct {
	server atomic.Pointer[server.Server]
	conns  atomic.Pointer[transport.Conn]
	dialed atomic.Int32
}

func (d *flakyDialer) Dial(ctx context.Context, h jsonrpc.Handler) (transport.Conn, error) {
	conn, err := transport.Pipe(d.server.Load()).Dial(ctx, h)
	if err == nil {
		d.conns.Store(&conn)
		d.dialed.Add(1)
	}
	return conn, err
}

func (d *flakyDialer) cut() { (*d.conns.Load()).Close() }

// Events continue at the last position when the connection is cut and the server is restarted.
func TestEventsContinue(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, err := store.NewMemory(nil)
				if err != nil {
					t.Fatal(err)
				}
				defer shared.Close()
				dialer := &flakyDialer{}
				s, topic := newOrders(&server.Options{Store: shared})
				dialer.server.Store(s)
				session := connectTo(t, dialer)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					<-time.After(time.Minute) // begins now, without events
					for round := range 20 {
						place(t, topic, 3*round, 3*round+1)
						<-time.After(10 * time.Second)
						if round%2 == 0 {
							dialer.cut()
						} else {
							next, nextTopic := newOrders(&server.Options{Store: shared})
							dialer.server.Store(next)
							s.Shutdown(ctx)
							dialer.cut()
							s, topic = next, nextTopic
						}
						place(t, topic, 3*round+2) // while the client is away
						<-time.After(time.Minute)
					}
				}()
				want := 0
				opts := &client.EventsOptions{Delivery: mode, OnGap: func() { t.Error("a gap was reported") }}
				for e, err := range client.Events[order](ctx, session, "order.placed", nil, opts) {
					if err != nil {
						t.Fatal(err)
					}
					if e.Payload.Number != want {
						t.Fatalf("got %d, want %d", e.Payload.Number, want)
					}
					if want++; want == 60 {
						break
					}
				}
				if dialer.dialed.Load() < 10 {
					t.Errorf("%d connections", dialer.dialed.Load())
				}
				synctest.Wait()
				<-time.After(2 * time.Minute) // the publisher ends
				s.Shutdown(ctx)
			})
		})
	}
}

// A program that stores the cursor continues after a restart of its own.
func TestStoredCursor(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, topic := newOrders(nil)
				stored := ""
				read := func(most int) (numbers []int) {
					session := connectTo(t, transport.Pipe(s))
					defer session.Close()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					opts := &client.EventsOptions{Delivery: mode, Cursor: stored, OnCursor: func(c string) { stored = c }}
					for e, err := range client.Events[order](ctx, session, "order.placed", nil, opts) {
						if errors.Is(err, context.DeadlineExceeded) {
							break
						}
						if err != nil {
							t.Fatal(err)
						}
						if numbers = append(numbers, e.Payload.Number); len(numbers) == most {
							stored = e.Cursor
							break
						}
					}
					return numbers
				}
				if got := read(9); len(got) > 0 {
					t.Errorf("before all events: %v", got)
				}
				place(t, topic, 1, 2, 3)
				if got := read(9); !slices.Equal(got, []int{1, 2, 3}) {
					t.Errorf("then: %v", got)
				}
				place(t, topic, 4, 5)
				if got := read(9); !slices.Equal(got, []int{4, 5}) {
					t.Errorf("at the end: %v", got)
				}
			})
		})
	}
}

// Occurrences that the server has not kept are reported once, and the rest arrives.
func TestGap(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, topic := newOrders(nil)
				session := connectTo(t, transport.Pipe(s))
				var stored string
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				for range client.Events[order](ctx, session, "order.placed", nil, &client.EventsOptions{Delivery: mode, OnCursor: func(c string) { stored = c }}) {
				}
				cancel()
				place(t, topic, 1)
				<-time.After(time.Hour)
				place(t, topic, 2)
				gaps := 0
				ctx, cancel = context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				var got []int
				for e, err := range client.Events[order](ctx, session, "order.placed", nil, &client.EventsOptions{Delivery: mode, Cursor: stored, OnGap: func() { gaps++ }}) {
					if err == nil {
						got = append(got, e.Payload.Number)
					}
				}
				if gaps != 1 || !slices.Equal(got, []int{2}) {
					t.Errorf("%d gaps, events %v", gaps, got)
				}
			})
		})
	}
}

// Both modes end when the event is removed or the access is revoked.
func TestTermination(t *testing.T) {
	for _, mode := range bothModes {
		for _, revoke := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, revoke), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var revoked atomic.Bool
					s, topic := newOrders(&server.Options{Guards: []mcp.Guard{{Name: "member", Check: func(context.Context, *mcp.Call) error {
						if revoked.Load() {
							return errors.New("not a member")
						}
						return nil
					}}}})
					session := connectTo(t, transport.Pipe(s))
					go func() {
						<-time.After(time.Minute)
						place(t, topic, 1)
						<-time.After(10 * time.Second)
						if revoke {
							revoked.Store(true)
						} else {
							s.Remove(mcp.KindEvent, "order.placed")
						}
					}()
					got, code := 0, jsonrpc.Code(0)
					for _, err := range client.Events[order](t.Context(), session, "order.placed", nil, &client.EventsOptions{Delivery: mode}) {
						if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
							code = e.Code
						} else {
							got++
						}
					}
					want := mcp.CodeNotFound
					switch {
					case revoke:
						want = mcp.CodeForbidden
					case mode == mcp.DeliveryPoll:
						want = jsonrpc.MethodNotFound // it was the only event
					}
					if got != 1 || code != want {
						t.Errorf("%d events, then code %d, want %d", got, code, want)
					}
				})
			})
		}
	}
}

// A slow caller gets everything, while a bounded number of events wait for it.
func TestSlowCallerOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, topic := newOrders(nil)
		session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Limits: client.Limits{QueuedNotifications: 4}})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		go func() {
			<-time.After(time.Minute)
			for n := range 100 {
				place(t, topic, n)
			}
		}()
		want := 0
		for e, err := range client.Events[order](t.Context(), session, "order.placed", nil, &client.EventsOptions{OnGap: func() { t.Error("a gap was reported") }}) {
			if err != nil || e.Payload.Number != want {
				t.Fatalf("got %+v, %v, want %d", e, err, want)
			}
			<-time.After(time.Second)
			if want++; want == 100 {
				break
			}
		}
	})
}

func TestEventsEndWithTheSession(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newOrders(nil)
				session := connectTo(t, transport.Pipe(s))
				go func() {
					<-time.After(time.Minute)
					session.Close()
				}()
				for _, err := range client.Events[order](t.Context(), session, "order.placed", nil, &client.EventsOptions{Delivery: mode}) {
					if !errors.Is(err, jsonrpc.ErrClosed) {
						t.Errorf("the error is %v", err)
					}
				}
			})
		})
	}
}

func TestPayloadThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, topic := newOrders(nil)
		session := connectTo(t, transport.Pipe(s))
		go func() {
			<-time.After(time.Minute)
			place(t, topic, 1)
		}()
		count := 0
		for _, err := range client.Events[struct {
			Number string `json:"number"`
		}](t.Context(), session, "order.placed", nil, nil) {
			if count++; err == nil || !strings.Contains(err.Error(), "evt_1") {
				t.Errorf("the error is %v", err)
			}
		}
		if count != 1 {
			t.Errorf("%d results", count)
		}
	})
}

// Cancelling the context or closing the session in the loop, and then leaving it, ends the sequence.
func TestEventsStoppedTwice(t *testing.T) {
	for _, mode := range bothModes {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, closes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, topic := newOrders(nil)
					session := connectTo(t, transport.Pipe(s))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go func() {
						<-time.After(time.Minute)
						place(t, topic, 1)
					}()
					for _, err := range client.Events[order](ctx, session, "order.placed", nil, &client.EventsOptions{Delivery: mode}) {
						if err != nil {
							t.Error(err)
						}
						if closes {
							session.Close()
						} else {
							cancel()
						}
						break
					}
				})
			})
		}
	}
}

// offersEvents is the result of server/discover of a server with events.
const offersEvents = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/events":{}}},"serverInfo":{"name":"x","version":"1"},"ttlMs":0,"cacheScope":"private"}`

// polled reads the events of a server that answers the n-th poll with a result, "" for an internal
// error, until the sequence ends. After all results, the server forbids the event. A stream has the
// events of the first result.
func polled(t *testing.T, results []string, opts client.EventsOptions) (ids []string, err error) {
	t.Helper()
	polls := 0
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		switch req.Method {
		case mcp.MethodDiscover:
			return []string{result(req, offersEvents)}
		case mcp.MethodEventsPoll:
			if polls++; polls > len(results) {
				return []string{failure(req, mcp.CodeForbidden, "stop")}
			}
			if results[polls-1] == "" {
				return []string{failure(req, jsonrpc.InternalError, "try again")}
			}
			return []string{result(req, `{"resultType":"complete",`+results[polls-1]+`}`)}
		}
		if req.Method != mcp.MethodEventsStream {
			return nil
		}
		if polls++; polls > 1 {
			return []string{failure(req, mcp.CodeForbidden, "stop")}
		}
		var raw struct{ Events []json.RawMessage }
		if err := json.Unmarshal([]byte("{"+results[0]+"}"), &raw); err != nil {
			t.Error(err)
		}
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + req.ID.String() + `}`
		messages := []string{notification(mcp.NotificationEventActive, `{"cursor":null,"truncated":false,`+meta+`}`)}
		for _, e := range raw.Events {
			messages = append(messages, notification(mcp.NotificationEvent, strings.TrimSuffix(string(e), "}")+","+meta+"}"))
		}
		return append(messages, result(req, `{"resultType":"complete"}`))
	}), client.Options{Era: client.Modern})
	opts.Delivery = cmp.Or(opts.Delivery, mcp.DeliveryPoll)
	for e, failed := range client.Events[json.RawMessage](t.Context(), session, "o", nil, &opts) {
		if err = failed; err == nil {
			ids = append(ids, e.ID)
		}
	}
	return ids, err
}

// A request is repeated if the server is busy or has failed. Any other refusal ends the sequence.
func TestRefusedRequestsForEvents(t *testing.T) {
	for code, repeated := range map[jsonrpc.Code]bool{
		jsonrpc.Busy: true, jsonrpc.InternalError: true,
		mcp.CodeResourceExhausted: false, mcp.CodeNotFound: false, jsonrpc.InvalidParams: false, jsonrpc.MethodNotFound: false,
	} {
		for _, mode := range bothModes {
			t.Run(fmt.Sprint(int(code), " ", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					requests := 0
					session := connect(t, script(func(req *jsonrpc.Request) []string {
						switch req.Method {
						case mcp.MethodDiscover:
							return []string{result(req, offersEvents)}
						case mcp.MethodEventsPoll, mcp.MethodEventsStream:
							if requests++; requests == 1 {
								return []string{failure(req, code, "no")}
							}
							return []string{failure(req, mcp.CodeForbidden, "stop")}
						}
						return nil
					}), client.Options{Era: client.Modern, Logger: slog.New(slog.DiscardHandler)})
					var last error
					for _, err := range client.Events[json.RawMessage](t.Context(), session, "o", nil, &client.EventsOptions{Delivery: mode}) {
						last = err
					}
					wantRequests, wantCode := 1, code
					if repeated {
						wantRequests, wantCode = 2, mcp.CodeForbidden
					}
					if e, ok := errors.AsType[*jsonrpc.Error](last); !ok || e.Code != wantCode || requests != wantRequests {
						t.Errorf("%d requests, then %v; want %d, then code %d", requests, last, wantRequests, wantCode)
					}
				})
			})
		}
	}
}

// A server that says that it has more events, and does not send them, is polled with pauses.
func TestPollsWithoutProgress(t *testing.T) {
	const (
		stuck   = `"events":[],"cursor":"c","truncated":false,"hasMore":true,"nextPollMs":60000`
		further = `"events":[],"cursor":"d","truncated":false,"hasMore":true,"nextPollMs":60000`
		null    = `"events":[{"eventId":"e1","name":"o","timestamp":"2026-02-19T15:30:00Z","data":{}}],"cursor":null,"truncated":false,"hasMore":true,"nextPollMs":0`
	)
	for name, test := range map[string]struct {
		results []string
		want    time.Duration
	}{
		"the cursor moves":     {[]string{stuck, further, stuck, further}, 0},
		"the cursor is stuck":  {[]string{stuck, stuck, stuck, stuck}, 15 * time.Second},
		"there are no cursors": {[]string{null, null, null}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, err := polled(t, test.results, client.EventsOptions{PollInterval: 5 * time.Second})
				if elapsed := time.Since(began); elapsed != test.want || !client.IsForbidden(err) {
					t.Errorf("the polls took %v, want %v; then %v", elapsed, test.want, err)
				}
			})
		})
	}
}

// A malformed occurrence ends the sequence, as a payload that does not fit.
func TestMalformedOccurrences(t *testing.T) {
	const valid = `{"eventId":"e1","name":"o","timestamp":"2026-02-19T15:30:00Z","data":{}}`
	for name, malformed := range map[string]string{
		"no id":     `{"name":"o","timestamp":"2026-02-19T15:30:00Z","data":{}}`,
		"timestamp": `{"eventId":"e2","name":"o","timestamp":5,"data":{}}`,
	} {
		for _, mode := range bothModes {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opts := client.EventsOptions{Delivery: mode}
					ids, err := polled(t, []string{`"events":[` + valid + "," + malformed + `],"cursor":"c","truncated":false,"hasMore":false,"nextPollMs":1000`}, opts)
					if err == nil || client.IsForbidden(err) || len(ids) > 1 {
						t.Errorf("got %v, then %v", ids, err)
					}
				})
			})
		}
	}
}

// Without cursors, a gap is reported after a failed request only.
func TestGapsWithoutReplay(t *testing.T) {
	const (
		quiet     = `"events":[],"cursor":null,"truncated":false,"hasMore":false,"nextPollMs":1000`
		truncated = `"events":[],"cursor":null,"truncated":true,"hasMore":false,"nextPollMs":1000`
		replayed  = `"events":[],"cursor":"c","truncated":true,"hasMore":false,"nextPollMs":1000`
	)
	for name, test := range map[string]struct {
		results []string
		want    int
	}{
		"quiet":                {[]string{quiet, quiet, quiet}, 0},
		"truncated":            {[]string{truncated, truncated}, 0},
		"failed request":       {[]string{quiet, "", quiet, quiet}, 1},
		"failed first request": {[]string{"", quiet}, 0},
		"with replay":          {[]string{replayed, replayed}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gaps := 0
				if _, err := polled(t, test.results, client.EventsOptions{OnGap: func() { gaps++ }}); !client.IsForbidden(err) || gaps != test.want {
					t.Errorf("%d gaps, want %d; then %v", gaps, test.want, err)
				}
			})
		})
	}
}
