package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A fakeServer answers the n-th events/subscribe with a result, and later ones with the last result. "" is
// an error, and "error N" one with the code N.
type fakeServer struct {
	delay time.Duration // of the answer to events/subscribe

	mu      sync.Mutex
	results []string
	methods []string // that were called
	secret  string   // of the last subscription
}

func (f *fakeServer) connect(t *testing.T) *client.Session {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			if call.Method() != mcp.MethodEventsSubscribe && call.Method() != mcp.MethodEventsUnsubscribe {
				return next(ctx, call)
			}
			if call.Method() == mcp.MethodEventsSubscribe {
				defer func() { <-time.After(f.delay) }()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if call.Method() == mcp.MethodEventsUnsubscribe {
				f.methods = append(f.methods, "unsubscribe")
				return mcp.Raw("{}"), nil
			}
			var params mcp.EventParams
			if err := params.UnmarshalJSON(call.Params()); err != nil {
				return nil, err
			}
			f.secret = params.Delivery.Secret
			f.methods = append(f.methods, "subscribe")
			result := f.results[0]
			if len(f.results) > 1 {
				f.results = f.results[1:]
			}
			if result == "" {
				return nil, mcp.ResourceNotFound("demo://log")
			}
			var code jsonrpc.Code
			if n, _ := fmt.Sscanf(result, "error %d", &code); n == 1 {
				return nil, &jsonrpc.Error{Code: code, Message: "no"}
			}
			return mcp.Raw(result), nil
		}
	}}})
	session, err := client.Connect(t.Context(), transport.Pipe(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// granted is a result of events/subscribe. After half of its lifetime, it is refreshed.
func granted(lifetime time.Duration, cursor string, truncated bool) string {
	return fmt.Sprintf(`{"id":"sub_1","refreshBefore":%q,"cursor":%q,"truncated":%v}`, time.Now().Add(lifetime).Format(time.RFC3339Nano), cursor, truncated)
}

// A gap that a refresh reports waits until the deliveries before it are handled, also if there are as
// many as may be in progress.
func TestGapTakesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t, webhook.Options{})
		f := &fakeServer{results: []string{granted(10*time.Second, "c1", false), granted(time.Hour, "c2", true)}}
		var types []webhook.Type // not synchronized, since the handler is called by one goroutine at a time
		handle := func(ctx context.Context, d webhook.Delivery) error {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 5*time.Second {
				t.Errorf("%v: the deadline of the handler is %v", d.Type, deadline)
			}
			types = append(types, d.Type, "begin")
			<-time.After(3 * time.Second)
			types = append(types, d.Type, "end")
			return nil
		}
		sub, err := webhook.Subscribe(t.Context(), f.connect(t), r, "https://example.com/", "e", nil, handle, nil)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(4 * time.Second)
		f.mu.Lock()
		secret := f.secret
		f.mu.Unlock()
		codes := make(chan int, 4)
		for i := range 4 {
			go func() { codes <- serve(r, signed(t, secret, "sub_1", fmt.Sprint("evt_", i), occurrence)).Code }()
		}
		<-time.After(10 * time.Second)
		if sum := <-codes + <-codes + <-codes + <-codes; sum != 200+200+503+503 { // two have waited too long
			t.Errorf("the sum of the statuses is %d", sum)
		}
		if err := sub.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if want := []webhook.Type{webhook.Event, "begin", webhook.Event, "end", webhook.Event, "begin", webhook.Event, "end", webhook.Gap, "begin", webhook.Gap, "end"}; !slices.Equal(types, want) {
			t.Errorf("the handler was called as %v, want %v", types, want)
		}
		if sub.Cursor() != "c2" {
			t.Errorf("the cursor is %q", sub.Cursor())
		}
	})
}

// A gap is reported until its handler has accepted it, before the position moves past it.
func TestGapIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{results: []string{granted(10*time.Second, "c1", false), granted(time.Hour, "c2", true), granted(time.Hour, "c3", false)}}
		var got []string
		opts := &webhook.SubscribeOptions{OnCursor: func(cursor string) { got = append(got, cursor) }}
		sub, err := webhook.Subscribe(t.Context(), f.connect(t), newReceiver(t, webhook.Options{}), "https://example.com/", "e", nil,
			func(_ context.Context, d webhook.Delivery) error {
				got = append(got, fmt.Sprint(d.Type, " ", *d.Cursor))
				if len(got) == 2 {
					return mcp.ResourceNotFound("demo://log") // a code with which a server would end the subscription
				}
				return nil
			}, opts)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		if err := errors.Join(sub.Err(), sub.Close(t.Context())); err != nil {
			t.Error(err)
		}
		if want := []string{"c1", "gap c2", "gap c3", "c3"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// The position of a refresh does not replace the position of a delivery that was handled after the request.
func TestPositionOfARefresh(t *testing.T) {
	for name, test := range map[string]struct {
		deliver bool
		handler time.Duration
		cursor  string
		stored  []string
	}{
		"no delivery":                    {false, 0, "c2", []string{"c1", "c2"}},
		"delivery before the result":     {true, 0, "c9", []string{"c1", "c9"}},
		"delivery ends after the result": {true, 3 * time.Second, "c9", []string{"c1", "c9"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReceiver(t, webhook.Options{})
				f := &fakeServer{delay: 2 * time.Second, results: []string{granted(10*time.Second, "c1", false), granted(time.Hour, "c2", false)}}
				var stored []string
				opts := &webhook.SubscribeOptions{OnCursor: func(cursor string) { stored = append(stored, cursor) }}
				sub, err := webhook.Subscribe(t.Context(), f.connect(t), r, "https://example.com/", "e", nil, func(_ context.Context, d webhook.Delivery) error {
					stored = append(stored, *d.Cursor)
					<-time.After(test.handler)
					return nil
				}, opts)
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(5 * time.Second) // the refresh is in progress from the 4th to the 6th second
				f.mu.Lock()
				secret := f.secret
				f.mu.Unlock()
				if test.deliver {
					body := `{"eventId":"evt_1","name":"e","data":{},"cursor":"c9"}`
					if w := serve(r, signed(t, secret, "sub_1", "evt_1", body)); w.Code != 200 {
						t.Errorf("the delivery was answered %d", w.Code)
					}
				}
				<-time.After(5 * time.Second)
				if err := sub.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if sub.Cursor() != test.cursor || !slices.Equal(stored, test.stored) {
					t.Errorf("the cursor is %q, and %q were stored, want %q and %q", sub.Cursor(), stored, test.cursor, test.stored)
				}
			})
		})
	}
}

// A subscription that cannot be used is ended at the server.
func TestFailedSubscriptions(t *testing.T) {
	refused := errors.New("the disk is full")
	for name, result := range map[string]string{
		"gap":           `{"id":"sub_1","refreshBefore":null,"cursor":"c","truncated":true}`,
		"malformed id":  `{"id":"sub 1","refreshBefore":null,"cursor":"c","truncated":false}`,
		"no time":       `{"id":"sub_1","refreshBefore":"soon","cursor":"c","truncated":false}`,
		"not decodable": `{"id":"sub_1","refreshBefore":null,"cursor":5,"truncated":false}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, r := &fakeServer{results: []string{result}}, newReceiver(t, webhook.Options{MaxRegistrations: 1})
				h := &recorder{err: refused}
				_, err := webhook.Subscribe(t.Context(), f.connect(t), r, "https://example.com/", "e", nil, h.handle, nil)
				if err == nil || (name == "gap") != errors.Is(err, refused) {
					t.Errorf("the error is %v", err)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if !slices.Equal(f.methods, []string{"subscribe", "unsubscribe"}) {
					t.Errorf("the client called %v", f.methods)
				}
				register(t, r, h.handle, "").Close()
			})
		})
	}
}

// A subscription that the server may have made is ended, also if the client did not get the result. One
// that the server has refused is not.
func TestSubscriptionsWithoutResult(t *testing.T) {
	for name, test := range map[string]struct {
		result  string
		delay   time.Duration
		methods []string
	}{
		"late":           {granted(time.Hour, "c1", false), time.Second, []string{"subscribe", "unsubscribe"}},
		"internal error": {`[]`, 0, []string{"subscribe", "unsubscribe"}},
		"refused":        {"", 0, []string{"subscribe"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, r, h := &fakeServer{results: []string{test.result}, delay: test.delay}, newReceiver(t, webhook.Options{}), &recorder{}
				session := f.connect(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				if _, err := webhook.Subscribe(ctx, session, r, "https://example.com/", "e", nil, h.handle, nil); err == nil {
					t.Error("there is no error")
				}
				<-time.After(time.Minute)
				f.mu.Lock()
				defer f.mu.Unlock()
				if !slices.Equal(f.methods, test.methods) {
					t.Errorf("the client called %v, want %v", f.methods, test.methods)
				}
			})
		})
	}
}

// A refresh is repeated if the server may grant it later. Any other refusal ends the subscription.
func TestRefusedRefreshes(t *testing.T) {
	for code, repeated := range map[jsonrpc.Code]bool{
		jsonrpc.Busy: true, jsonrpc.InternalError: true, mcp.CodeResourceExhausted: true, mcp.CodeCallbackEndpoint: true,
		mcp.CodeNotFound: false, mcp.CodeForbidden: false, mcp.CodeUnsupported: false, jsonrpc.InvalidParams: false, jsonrpc.MethodNotFound: false,
	} {
		t.Run(fmt.Sprint(int(code)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{results: []string{granted(time.Hour, "c1", false), fmt.Sprint("error ", int(code)), granted(2*time.Hour, "c1", false)}}
				sub, err := webhook.Subscribe(t.Context(), f.connect(t), newReceiver(t, webhook.Options{}), "https://example.com/", "e", nil, (&recorder{}).handle,
					&webhook.SubscribeOptions{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(45 * time.Minute)
				want := []string{"subscribe", "subscribe"}
				if repeated {
					want = append(want, "subscribe")
				}
				f.mu.Lock()
				if !slices.Equal(f.methods, want) {
					t.Errorf("the client called %v, want %v", f.methods, want)
				}
				f.mu.Unlock()
				if e, ended := errors.AsType[*jsonrpc.Error](sub.Err()); ended == repeated || ended && e.Code != code {
					t.Errorf("the subscription ends with %v", sub.Err())
				}
				if err := sub.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A second subscription that is the same one for the server is refused before it changes the first one.
func TestSameSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{results: []string{granted(time.Hour, "c1", false)}}
		r, h, session := newReceiver(t, webhook.Options{}), &recorder{}, f.connect(t)
		subscribe := func(session *client.Session, url string, arguments json.RawMessage) (*webhook.Subscription, error) {
			return webhook.Subscribe(t.Context(), session, r, url, "e", arguments, h.handle, nil)
		}
		first, err := subscribe(session, "https://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := subscribe(session, "https://example.com/", json.RawMessage("{}")); err == nil {
			t.Error("there are two equal subscriptions")
		}
		var others []*webhook.Subscription
		for _, other := range []struct {
			session   *client.Session
			url       string
			arguments json.RawMessage
		}{{session, "https://example.com/2", nil}, {session, "https://example.com/", json.RawMessage(`{"a":1}`)}, {f.connect(t), "https://example.com/", nil}} {
			sub, err := subscribe(other.session, other.url, other.arguments)
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, sub)
		}
		if err := first.Close(t.Context()); err != nil {
			t.Error(err)
		}
		again, err := subscribe(session, "https://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, sub := range append(others, again) {
			if err := sub.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if len(f.methods) != 10 {
			t.Errorf("the client called %v", f.methods)
		}
	})
}
