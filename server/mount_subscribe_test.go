package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// subscribed subscribes to one resource, and returns the error of a server that does not
// agree to it, whichever way it says so.
func subscribed(ctx context.Context, session *client.Session, uri string) error {
	sub, err := session.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}})
	if err == nil && !slices.Contains(sub.Agreed().ResourceSubscriptions, uri) {
		sub.Close()
		return mcp.ResourceNotFound(uri)
	}
	return err
}

// TestMountedSubscriptions: what is hidden anywhere is not subscribed to, its provider is
// not asked, and its updates do not arrive; all of that as for a resource that does not
// exist. Who sees it is told of its updates.
func TestMountedSubscriptions(t *testing.T) {
	hiding := guarded(staffOnly)
	for where, around := range map[string]struct{ server, mount, child, market, entry surround }{
		"server": {server: hiding}, "mount": {mount: hiding}, "child": {child: hiding}, "market": {market: hiding}, "entry": {entry: hiding},
	} {
		t.Run(where, func(t *testing.T) {
			virtualEras(t, func(t *testing.T, era client.Era) {
				s, child, m, open := newServer(around.server.options()), newServer(around.child.options()), newMarket(), newMarket()
				addEveryKind(child, around.entry, func(*server.Request) error { return nil })
				m.offers(m.entry(mcp.KindResource, "app:m", `{"uri":"app:m","name":"m"}`).Wrap(around.entry.Guards, nil))
				open.offers(open.entry(mcp.KindResource, "app:open", `{"uri":"app:open","name":"open"}`))
				if err := child.Mount(m, &server.MountOptions{Guards: around.market.Guards}); err != nil {
					t.Fatal(err)
				}
				if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_", Guards: around.mount.Guards}); err != nil {
					t.Fatal(err)
				}
				mountProvider(t, s, open, "")
				hidden := []string{"app:m"}
				if where != "market" {
					hidden = append(hidden, "app:r", "app:t/1")
				}
				told := map[string]*trace{"staff": {}, "guest": {}}
				for as, changes := range told {
					session := connectInMemory(t, s, &client.Options{
						Era: era, Info: mcp.Implementation{Name: as, Version: "1"},
						Changed: func(_ context.Context, change mcp.Change) { changes.step(change.URI) },
					})
					for _, uri := range hidden {
						if err := subscribed(t.Context(), session, uri); as == "staff" && err != nil || as == "guest" && !mcp.IsResourceNotFound(err) {
							t.Errorf("the %s subscribes to %s: %v", as, uri, err)
						}
					}
					if as == "guest" && where != "server" {
						if err := subscribed(t.Context(), session, "app:open"); err != nil {
							t.Errorf("the guest subscribes to app:open: %v", err)
						}
					}
				}
				synctest.Wait()
				if got := m.watched.take(); !slices.Equal(got, []string{"run", "watch app:m"}) {
					t.Errorf("the provider sees %q", got)
				}
				for _, uri := range hidden[1:] {
					child.ResourceUpdated(uri)
				}
				m.change(mcp.Change{Kind: mcp.KindResource, URI: "app:m"})
				open.change(mcp.Change{Kind: mcp.KindResource, URI: "app:open"})
				synctest.Wait()
				if got := told["staff"].take(); len(got) != len(hidden) {
					t.Errorf("the staff is told of %q, want %q", got, hidden)
				}
				if got := strings.Join(told["guest"].take(), " "); got != "app:open" && where != "server" || got != "" && where == "server" {
					t.Errorf("a guest is told of %q", got)
				}
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestMountedSubscriptionIsRefused by a guard's Check, wherever the guard is.
func TestMountedSubscriptionIsRefused(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		deny := guarded(denying("shut"))
		for where, s := range map[string]*server.Server{
			"server": newMounted(t, deny, surround{}, surround{}, nil),
			"child":  newMounted(t, surround{}, deny, surround{}, nil),
			"entry":  newMounted(t, surround{}, surround{}, deny, nil),
		} {
			session := connect(t, s, era)
			for _, uri := range []string{"app:r", "app:t/1"} {
				if err := subscribed(t.Context(), session, uri); err == nil || !strings.Contains(err.Error(), "Guard 'shut' denied") {
					t.Errorf("at the %s, %s: the error is %v", where, uri, err)
				}
			}
		}
	})
}

// TestCancelledSubscription: while a provider thinks about a subscription, the session and
// others go on, with subscriptions too; the request ends when its client gives it up.
func TestCancelledSubscription(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		asked, left := make(chan struct{}), make(chan error, 1)
		m := newMarket()
		slow := m.entry(mcp.KindResource, "app:slow", `{"uri":"app:slow","name":"slow"}`)
		slow.Subscribe = func(ctx context.Context, _ *mcp.Call) (func(), error) {
			close(asked)
			<-ctx.Done()
			left <- ctx.Err()
			return nil, ctx.Err()
		}
		m.offers(append(m.stalls("tool"), slow, m.entry(mcp.KindResource, "app:fast", `{"uri":"app:fast","name":"fast"}`))...)
		s := newServer(&server.Options{Logger: quiet()})
		mountProvider(t, s, m, "m_")
		told := make(chan mcp.Change, 1)
		session := connectWith(t, s, &client.Options{Era: era, Changed: func(_ context.Context, change mcp.Change) { told <- change }})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		subscribe := func(ctx context.Context, session *client.Session, uri string) error {
			if era == client.Modern {
				return subscribed(ctx, session, uri)
			}
			_, err := session.Call(ctx, mcp.MethodResourcesSubscribe, jsonRaw(`{"uri":"`+uri+`"}`), nil)
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- subscribe(ctx, session, "app:slow") }()
		<-asked
		for _, session := range []*client.Session{session, connect(t, s, era)} {
			call(t, session, "m_tool", `{}`)
			listed(t, session)
			if err := subscribe(t.Context(), session, "app:fast"); err != nil {
				t.Errorf("another subscription meanwhile: %v", err)
			}
		}
		s.ResourceUpdated("app:fast")
		if change := <-told; change.URI != "app:fast" {
			t.Errorf("the client is told of %+v", change)
		}
		if era == client.Legacy {
			for _, uri := range []string{"app:fast", "app:slow", "app:none"} { // even of what is not subscribed to yet
				if _, err := raw(t, session, mcp.MethodResourcesUnsubscribe, `{"uri":"`+uri+`"}`); err != nil {
					t.Errorf("unsubscribing from %s meanwhile: %v", uri, err)
				}
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("subscribing ends with %v", err)
		}
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the provider's context ends with %v", err)
		}
		call(t, session, "m_tool", `{}`)
	})
}

// TestStubbornSubscription: a provider that does not heed the end of the request keeps
// nothing else waiting, and what it begins at last ends with the session.
func TestStubbornSubscription(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		m, answer := newMarket(), make(chan struct{})
		stubborn := m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`)
		begin := stubborn.Subscribe
		stubborn.Subscribe = func(ctx context.Context, call *mcp.Call) (func(), error) {
			<-answer
			return begin(ctx, call)
		}
		m.offers(append(m.stalls("tool"), stubborn)...)
		s := newServer(&server.Options{Logger: quiet()})
		mountProvider(t, s, m, "m_")
		session := connectInMemory(t, s, &client.Options{Era: era})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- subscribed(ctx, session, "app:r") }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("subscribing ends with %v", err)
		}
		call(t, session, "m_tool", `{}`)
		close(answer)
		synctest.Wait()
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantSteps(t, &m.watched, "run", "watch app:r", "unwatch app:r")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSecondSubscriptionWaits: a legacy client that subscribes twice learns from both
// answers whether it is subscribed, and one that gives up the first still has the second.
func TestSecondSubscriptionWaits(t *testing.T) {
	for name, refused := range map[string]error{"agreed": nil, "refused": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, answer := newMarket(), make(chan struct{})
				slow := m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`)
				slow.Subscribe = func(context.Context, *mcp.Call) (func(), error) {
					<-answer
					return func() {}, refused
				}
				m.offers(slow)
				s := newServer(&server.Options{Logger: quiet()})
				mountProvider(t, s, m, "")
				conn, err := transport.Pipe(s).Dial(t.Context(), silent{})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				open := jsonrpc.Raw(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
				if _, err := conn.Call(t.Context(), mcp.MethodInitialize, open); err != nil {
					t.Fatal(err)
				}
				answers := make(chan error, 2)
				for range 2 {
					go func() {
						resp, err := conn.Call(t.Context(), mcp.MethodResourcesSubscribe, jsonrpc.Raw(`{"uri":"app:r"}`))
						if err == nil && resp.Error != nil {
							err = resp.Error
						}
						answers <- err
					}()
				}
				synctest.Wait()
				if len(answers) != 0 {
					t.Error("a request is answered before the provider has decided")
				}
				close(answer)
				for range 2 {
					if err := <-answers; (err != nil) != (refused != nil) {
						t.Errorf("the answer is %v", err)
					}
				}
			})
		})
	}
}

// silent is a client that refuses calls and ignores notifications.
type silent struct{}

func (silent) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "not here"}
}

func (silent) Notified(jsonrpc.Peer, *jsonrpc.Request) {}
