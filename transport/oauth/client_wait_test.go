package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// awaited waits until so many wait for a token.
func (w *world) awaited(ctx context.Context, client *oauth.Client, all int) {
	for oauth.Waiting(client, w.mcp()) != all && ctx.Err() == nil {
		runtime.Gosched()
	}
}

// A person who says no is not asked again for those who waited.
func TestOneRefusalForAll(t *testing.T) {
	const all = 8
	w := newWorld(t, nil)
	w.callback = func(answer url.Values) {
		answer.Del("code")
		answer.Set("error", "access_denied")
	}
	var client *oauth.Client
	client = w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			w.awaited(ctx, client, all)
			return w.browse(ctx, url)
		}}
	})
	var wait sync.WaitGroup
	for range all {
		wait.Go(func() {
			_, err := w.visit(client)
			if refused, ok := errors.AsType[*oauth.Error](err); !ok || refused.Code != "access_denied" {
				t.Errorf("got %v", err)
			}
		})
	}
	wait.Wait()
	if len(w.opened) != 1 {
		t.Errorf("%d browsers", len(w.opened))
	}
	w.callback = nil
	w.welcome(w.client(nil)) // and later is another time
}

// A login is not its first caller's own: it goes on while anybody waits, and no longer.
func TestLoginOutlastsItsFirstCaller(t *testing.T) {
	w := newWorld(t, nil)
	opened, agree := make(chan context.Context, 2), make(chan struct{})
	client := w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			opened <- ctx
			select {
			case <-agree:
				return w.browse(ctx, url)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
	})
	begin := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- client.Login(ctx, w.mcp()) }()
		return ended
	}
	reason := errors.New("the first has gone")
	ctx, leave := context.WithCancelCause(t.Context())
	first := begin(ctx)
	login := <-opened
	second := begin(t.Context())
	w.awaited(t.Context(), client, 2)
	leave(reason)
	if err := <-first; !errors.Is(err, reason) {
		t.Errorf("the first gets %v", err)
	}
	if login.Err() != nil {
		t.Error("the login ends with its first caller")
	}
	agree <- struct{}{}
	if err := <-second; err != nil || len(opened) != 0 || len(w.opened) != 1 {
		t.Errorf("the second gets %v, after %d browsers", err, len(w.opened))
	}

	if err := client.Logout(t.Context(), w.mcp()); err != nil {
		t.Fatal(err)
	}
	ctx, leave = context.WithCancelCause(t.Context())
	only := begin(ctx)
	login = <-opened
	leave(reason)
	if err := <-only; !errors.Is(err, reason) || !errors.Is(context.Cause(login), reason) {
		t.Errorf("the only one gets %v, the login %v", err, context.Cause(login))
	}
}

// A client that hears of ever more servers does not forget one that somebody waits for.
func TestServersInUseAreRemembered(t *testing.T) {
	w := newWorld(t, nil)
	var client *oauth.Client
	var wait sync.WaitGroup
	client = w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
			for i := range 2000 {
				server := &url.URL{Scheme: "https", Host: "server.example", Path: fmt.Sprint("/", i)}
				if err := client.Authorize(ctx, server, &http.Request{URL: server, Header: http.Header{}}); err != nil {
					return err
				}
			}
			wait.Go(func() { w.welcome(client) })
			w.awaited(ctx, client, 2)
			return w.browse(ctx, to)
		}}
	})
	w.welcome(client)
	wait.Wait()
	if len(w.opened) != 1 {
		t.Errorf("%d browsers", len(w.opened))
	}
}

// A token is for a server as it is dialled: not for one with another query.
func TestServersThatDifferByQuery(t *testing.T) {
	w, kept := newWorld(t, nil), newStore()
	stored := func(o *oauth.ClientOptions) { o.Store = kept }
	a, b := w.mcp()+"?tenant=a&key=secret", w.mcp()+"?tenant=b"
	w.about["resource"] = a
	client := w.client(stored)
	if status, err := w.visitAt(client, a); err != nil || status != http.StatusOK {
		t.Fatalf("got %d, %v", status, err)
	}
	for _, client := range []*oauth.Client{client, w.client(stored)} {
		if _, err := w.visitAt(client, b); !is[*oauth.MetadataError](err) || len(w.tokens) != 1 {
			t.Errorf("got %v; %d tokens were shown", err, len(w.tokens))
		}
	}
	key := kept.keys()[len(kept.keys())-1]
	if len(key) > len("login ")+len(w.mcp())+1+43 {
		t.Errorf("it is kept as %q", key)
	}
	// Nor is one that stands in the store for another resource.
	login, _ := kept.Load(t.Context(), key)
	if err := kept.Save(t.Context(), "login "+w.mcp(), login); err != nil {
		t.Fatal(err)
	}
	w.about["resource"] = w.mcp()
	w.welcome(w.client(stored))
	if len(w.opened) != 2 || w.tokens[1] == w.tokens[0] {
		t.Errorf("%d browsers; shown were %v", len(w.opened), w.tokens)
	}
}
