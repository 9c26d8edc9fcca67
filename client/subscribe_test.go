package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// changes collects changes.
func changes(opts *client.Options) <-chan mcp.Change {
	told := make(chan mcp.Change, 64)
	opts.OnChange = func(_ context.Context, change mcp.Change) { told <- change }
	return told
}

// pending returns the changes that have not been read.
func pending(told <-chan mcp.Change) []mcp.Change {
	var all []mcp.Change
	for {
		select {
		case change := <-told:
			all = append(all, change)
		default:
			return all
		}
	}
}

const motto = "app://motto"

var everything = mcp.SubscriptionFilter{
	ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: []string{motto},
}

// TestSubscription checks what a server accepts and reports.
func TestSubscription(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := newLogServer()
			opts := client.Options{Era: era}
			told := changes(&opts)
			session := connect(t, transport.Pipe(s), opts)
			sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{motto}})
			if err != nil {
				t.Fatal(err)
			}
			if agreed := sub.Agreed(); !agreed.ToolsListChanged || agreed.PromptsListChanged || len(agreed.ResourceSubscriptions) != 1 {
				t.Errorf("agreed to %+v", agreed)
			}
			addTool(t, s, "a")
			synctest.Wait()
			s.ResourceUpdated(motto)
			s.ResourceUpdated("app://other")
			synctest.Wait()
			want := []mcp.Change{{Kind: mcp.KindTool}, {Kind: mcp.KindResource, URI: motto}}
			if diff := cmp.Diff(want, pending(told)); diff != "" {
				t.Error(diff)
			}
			select {
			case <-sub.Done():
				t.Errorf("the subscription has ended: %v", sub.Err())
			default:
			}
			sub.Close()
			sub.Close()
			<-sub.Done()
			synctest.Wait()
			s.ResourceUpdated(motto)
			synctest.Wait()
			if told := pending(told); len(told) != 0 {
				t.Errorf("told after the end: %v", told)
			}
			if !errors.Is(sub.Err(), jsonrpc.ErrClosed) {
				t.Errorf("ended with %v, want that it was closed", sub.Err())
			}
		})
	})
}

// A server accepts the supported parts of a filter and reports them.
func TestSubscriptionToUnsupportedChanges(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{ListChanged: true}}})
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era})
		sub, err := session.Subscribe(t.Context(), everything)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		if diff := cmp.Diff(mcp.SubscriptionFilter{ToolsListChanged: true}, sub.Agreed()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSubscriptionToUnknownResource checks that a resource that the server does not know is left out.
func TestSubscriptionToUnknownResource(t *testing.T) {
	const unknown = "app://unknown"
	tests := []struct{ uris, want []string }{
		{[]string{unknown}, nil},
		{[]string{unknown, motto}, []string{motto}},
		{[]string{motto, unknown}, []string{motto}},
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newLogServer()
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era})
		for _, test := range tests {
			sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: test.uris})
			if err != nil {
				t.Errorf("%q: %v", test.uris, err)
				continue
			}
			if got := sub.Agreed().ResourceSubscriptions; !slices.Equal(got, test.want) {
				t.Errorf("%q: the server accepts %q, want %q", test.uris, got, test.want)
			}
			sub.Close()
		}
	})
}

// TestSubscriptionRefused checks that any other refusal is the error of the server.
func TestSubscriptionRefused(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Capabilities: &offersAll})
		refusal := &jsonrpc.Error{Code: -32050, Message: "not today"}
		closed := mcp.Guard{Name: "closed", Check: func(context.Context, *mcp.Call) error { return refusal }}
		server.AddResource(s, server.Resource{URI: motto, Guards: []mcp.Guard{closed}}, func(context.Context, *server.Request) (string, error) { return "measure twice", nil })
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era})
		_, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{motto}})
		if refused, ok := err.(*jsonrpc.Error); !ok || refused.Code != refusal.Code || refused.Message != refusal.Message {
			t.Errorf("subscribing gives a %T: %v", err, err)
		}
	})
}

// TestSubscriptionsToOneResource checks that two subscriptions to one resource are independent.
func TestSubscriptionsToOneResource(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := newLogServer()
			opts := client.Options{Era: era}
			told := changes(&opts)
			session := connect(t, transport.Pipe(s), opts)
			filter := mcp.SubscriptionFilter{ResourceSubscriptions: []string{motto}}
			first, err := session.Subscribe(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			second, err := session.Subscribe(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			first.Close()
			synctest.Wait()
			s.ResourceUpdated(motto)
			synctest.Wait()
			if told := pending(told); len(told) != 1 {
				t.Errorf("told %v, want the update once", told)
			}
			second.Close()
			synctest.Wait()
			s.ResourceUpdated(motto)
			synctest.Wait()
			if told := pending(told); len(told) != 0 {
				t.Errorf("told %v after the last subscription was closed", told)
			}
		})
	})
}

func TestSubscriptionEndedByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLogServer()
		session := connect(t, transport.Pipe(s), client.Options{Era: client.Modern})
		sub, err := session.Subscribe(t.Context(), everything)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-sub.Done()
		if sub.Err() != nil {
			t.Errorf("ended in good order, but with %v", sub.Err())
		}
	})
}

func TestSubscriptionNotGranted(t *testing.T) {
	answers := map[string]func(req *jsonrpc.Request) []string{
		"refused":             func(req *jsonrpc.Request) []string { return []string{failure(req, jsonrpc.MethodNotFound, "no")} },
		"ended before agreed": func(req *jsonrpc.Request) []string { return []string{result(req, `{"resultType":"complete"}`)} },
		"cancelled by server": func(req *jsonrpc.Request) []string { return []string{cancelled(req)} },
		"never agreed":        func(*jsonrpc.Request) []string { return []string{} },
		"agreed to nonsense":  func(req *jsonrpc.Request) []string { return []string{agreed(req, `[]`)} },
		"agreed for another": func(*jsonrpc.Request) []string {
			return []string{agreed(&jsonrpc.Request{ID: jsonrpc.IntID(99)}, `{}`)}
		},
		"agreed without an id": func(*jsonrpc.Request) []string {
			return []string{notification(mcp.NotificationAcknowledged, `{"notifications":{}}`)}
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				session := connect(t, script(func(req *jsonrpc.Request) []string {
					if req.Method == mcp.MethodSubscriptionsListen {
						return answer(req)
					}
					return nil
				}), client.Options{Era: client.Modern})
				begun := time.Now()
				sub, err := session.Subscribe(t.Context(), everything)
				if err == nil {
					t.Fatalf("granted: %+v", sub)
				}
				if strings.Contains(err.Error(), "<nil>") {
					t.Errorf("the error gives no reason: %v", err)
				}
				if waited := time.Since(begun); waited > time.Minute {
					t.Errorf("Subscribe waited %v", waited)
				}
			})
		})
	}
}

func agreed(req *jsonrpc.Request, filter string) string {
	return notification(mcp.NotificationAcknowledged, `{"notifications":`+filter+`,"_meta":{"`+mcp.MetaSubscriptionID+`":`+req.ID.String()+`}}`)
}

func cancelled(req *jsonrpc.Request) string {
	return notification(mcp.NotificationCancelled, `{"requestId":`+req.ID.String()+`}`)
}

func TestSubscribeEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			if req.Method == mcp.MethodSubscriptionsListen {
				return []string{}
			}
			return nil
		}), client.Options{Era: client.Modern})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := session.Subscribe(ctx, everything); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want the context's", err)
		}
	})
}

// TestSubscriptionIsReopened checks that a subscription is renewed with the connection, and reports
// what may have changed.
func TestSubscriptionIsReopened(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := newLogServer()
			dialer := &breaker{server: s}
			opts := client.Options{Era: era}
			told := changes(&opts)
			session := connect(t, dialer, opts)
			sub, err := session.Subscribe(t.Context(), everything)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 { // more often than it may fail in a row
				dialer.cut()
				s.ResourceUpdated(motto) // there is no connection
				if err := session.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Minute)
				gap := []mcp.Change{
					{Kind: mcp.KindTool}, {Kind: mcp.KindPrompt}, {Kind: mcp.KindResource}, {Kind: mcp.KindResource, URI: motto},
				}
				if diff := cmp.Diff(gap, pending(told)); diff != "" {
					t.Fatal(diff)
				}
				s.ResourceUpdated(motto)
				synctest.Wait()
				if diff := cmp.Diff([]mcp.Change{{Kind: mcp.KindResource, URI: motto}}, pending(told)); diff != "" {
					t.Fatal(diff)
				}
			}
			select {
			case <-sub.Done():
				t.Errorf("it has ended: %v", sub.Err())
			default:
			}
		})
	})
}

// TestSubscriptionIsContinued checks that a subscription is renewed when its stream is interrupted, as when a replica behind
// a balancer is killed, and when the server does not accept it immediately then.
func TestSubscriptionIsContinued(t *testing.T) {
	s := newLogServer()
	handler := streamable.Handler(s, nil)
	var requests atomic.Int32
	interrupt := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") != mcp.MethodSubscriptionsListen {
			handler.ServeHTTP(w, r)
			return
		}
		if requests.Add(1)%3 == 2 {
			http.Error(w, "no replica accepts connections", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		served := make(chan struct{})
		go func() {
			defer close(served)
			handler.ServeHTTP(w, r.WithContext(ctx))
		}()
		select {
		case <-interrupt:
			cancel()
			<-served
			panic(http.ErrAbortHandler)
		case <-served:
		}
	}))
	defer web.Close()
	defer handler.Close()
	opts := client.Options{Era: client.Modern}
	told := changes(&opts)
	session := connect(t, streamable.Dial(web.URL, nil), opts)
	sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{motto}})
	if err != nil {
		t.Fatal(err)
	}
	want := mcp.Change{Kind: mcp.KindResource, URI: motto}
	for range 12 { // more often than it may fail in a row
		interrupt <- struct{}{}
		if got := waittest.Receive(t, "the gap", told); got != want {
			t.Fatalf("the gap is %+v", got)
		}
		s.ResourceUpdated(motto)
		if got := waittest.Receive(t, "a change", told); got != want {
			t.Fatalf("the change is %+v", got)
		}
	}
	session.Close()
	waittest.Receive(t, "the end of the subscription", sub.Done())
	if err := sub.Err(); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("the subscription ends with %v", err)
	}
}

// TestSubscriptionEndsWithTheSession checks that a subscription ends when its session cannot
// reconnect.
func TestSubscriptionEndsWithTheSession(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			dialer := &breaker{server: newLogServer()}
			session := connect(t, dialer, client.Options{Era: era, Limits: client.Limits{Reconnects: 3}})
			sub, err := session.Subscribe(t.Context(), everything)
			if err != nil {
				t.Fatal(err)
			}
			dialer.refuse.Store(true)
			dialer.cut()
			<-sub.Done()
			if err := sub.Err(); !errors.Is(err, jsonrpc.ErrClosed) || !errors.Is(err, errRefused) {
				t.Errorf("ended with %v, want why the session gave up", err)
			}
			if _, err := session.Subscribe(t.Context(), everything); !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("a subscription of a dead session: %v", err)
			}
		})
	})
}
