package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A bookReplica is a replica with resources and subscribers of both eras.
type bookReplica struct {
	*server.Server
	store *switchedStore
	peers []*eratest.Peer
}

// newBookReplicas returns replicas with one store, each with a subscriber of each era.
func newBookReplicas(t *testing.T, n int) []*bookReplica {
	t.Helper()
	shared := newStore(t)
	var replicas []*bookReplica
	for range n {
		l := newBookReplica(t, shared)
		l.subscribe(t)
		replicas = append(replicas, l)
	}
	return replicas
}

func newBookReplica(t *testing.T, shared store.Store) *bookReplica {
	t.Helper()
	l := &bookReplica{store: &switchedStore{Store: shared}}
	l.Server = newServer(&server.Options{Store: l.store, Logger: discardLogger()})
	server.AddTemplate(l.Server, server.Template{URITemplate: "book:{n}", Name: "book"},
		func(context.Context, *server.Request, struct {
			N int `json:"n"`
		}) (string, error) {
			return "text", nil
		})
	server.AddTool(l.Server, server.Tool{Name: "read"}, nothing[struct{}])
	t.Cleanup(func() {
		if err := l.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// subscribe adds a subscriber of each era, as two principals.
func (l *bookReplica) subscribe(t *testing.T) {
	t.Helper()
	legacy := eratest.ConnectAs(t, l.Server, "ada")
	legacy.Version = mcp.Version20251125
	legacy.Call(mcp.MethodInitialize, eratest.InitializeParams(mcp.Version20251125, "{}"))
	legacy.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	eratest.Want(t, legacy.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`), "{}", "result")
	modern := eratest.ConnectAs(t, l.Server, "bob")
	modern.Version, modern.Capabilities = mcp.LatestVersion, "{}"
	modern.Start(mcp.MethodSubscriptionsListen, `{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["book:1"]}}`)
	eratest.Want(t, modern.Next(), `"`+mcp.NotificationAcknowledged+`"`, "method")
	l.peers = []*eratest.Peer{legacy, modern}
}

// drain returns what a peer has received: for each notification, its method or URI.
func drain(p *eratest.Peer) (got []string) {
	p.T.Helper()
	synctest.Wait()
	for {
		select {
		case frame := <-p.Frames:
			what := eratest.Text(frame, "method")
			if uri := eratest.At(frame, "params", "uri"); uri != "" {
				what = strings.Trim(uri, `"`)
			}
			got = append(got, what)
		default:
			return got
		}
	}
}

// wantAll checks that each subscriber has received these notifications.
func wantAll(t *testing.T, replicas []*bookReplica, want ...string) {
	t.Helper()
	for i, l := range replicas {
		for j, p := range l.peers {
			if got := drain(p); !slices.Equal(got, want) {
				t.Errorf("subscriber %d of replica %d has received %q, want %q", j+1, i+1, got, want)
			}
		}
	}
}

const (
	toolsChanged     = mcp.NotificationToolsListChanged
	resourcesChanged = mcp.NotificationResourcesListChanged
)

// Subscribers at all replicas receive each change once.
func TestChangesReachAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newBookReplicas(t, 3)
		wantAll(t, replicas)
		for i := range 30 {
			l := replicas[i%3]
			server.AddTool(l.Server, server.Tool{Name: fmt.Sprint("new", i)}, nothing[struct{}])
			wantAll(t, replicas, toolsChanged)
			l.Remove(mcp.KindTool, fmt.Sprint("new", i))
			wantAll(t, replicas, toolsChanged)
			l.ResourceUpdated("book:1")
			l.ResourceUpdated("book:2")
			wantAll(t, replicas, "book:1")
			server.AddResource(l.Server, server.Resource{URI: fmt.Sprint("paper:", i)}, func(context.Context, *server.Request) (string, error) { return "", nil })
			wantAll(t, replicas, resourcesChanged)
		}
	})
}

// A change for one principal reaches only that principal at other replicas, too.
func TestChangeForPrincipalAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newBookReplicas(t, 2)
		replicas[0].ResourceUpdatedFor("bob", "book:1")
		for i, l := range replicas {
			if ada, bob := drain(l.peers[0]), drain(l.peers[1]); len(ada) != 0 || !slices.Equal(bob, []string{"book:1"}) {
				t.Errorf("at replica %d ada receives %q, bob %q", i+1, ada, bob)
			}
		}
	})
}

// Each replica has its own mount of a server, so changes of mounts are not passed on.
func TestChangesOfMountsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		inner := newServer(nil)
		one, other := newBookReplica(t, shared), newBookReplica(t, shared)
		one.Mount(inner.Provider(), nil)
		for _, l := range []*bookReplica{one, other} {
			if err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.subscribe(t)
		}
		server.AddTool(inner, server.Tool{Name: "inner"}, nothing[struct{}])
		wantAll(t, []*bookReplica{one}, toolsChanged)
		wantAll(t, []*bookReplica{other})
	})
}

// While a replica cannot reach the store, its own subscribers are notified. Later its changes reach
// the others.
func TestChangesWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newBookReplicas(t, 3)
		replicas[0].store.down.Store(true)
		server.AddTool(replicas[0].Server, server.Tool{Name: "new"}, nothing[struct{}])
		synctest.Wait() // the first one is being published
		replicas[0].ResourceUpdated("book:1")
		wantAll(t, replicas[:1], toolsChanged, "book:1")
		eratest.Pass(time.Hour)
		wantAll(t, replicas[1:])
		replicas[0].store.down.Store(false)
		eratest.Pass(time.Minute)
		wantAll(t, replicas[1:], toolsChanged, "book:1")
		wantAll(t, replicas)
	})
}

// A subscription succeeds while the store is down. When the replica has reached the store, everything
// may have changed.
func TestSubscriptionWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one, other := newBookReplica(t, shared), newBookReplica(t, shared)
		other.store.down.Store(true)
		one.subscribe(t)
		other.subscribe(t)
		one.ResourceUpdated("book:1")
		wantAll(t, []*bookReplica{one}, "book:1")
		wantAll(t, []*bookReplica{other})
		other.store.down.Store(false)
		eratest.Pass(time.Minute)
		for _, p := range other.peers {
			if got := drain(p); !slices.Contains(got, toolsChanged) || !slices.Contains(got, resourcesChanged) || !slices.Contains(got, "book:1") {
				t.Errorf("the subscriber receives %q, want everything", got)
			}
		}
		one.ResourceUpdated("book:1")
		wantAll(t, []*bookReplica{one, other}, "book:1")
	})
}

// More changes than wait for the store mean that everything may have changed.
func TestTooManyChangesForTheStore(t *testing.T) {
	for _, test := range []struct {
		name  string
		raise func(*bookReplica)
	}{
		{"number", func(l *bookReplica) {
			for i := range 2000 {
				l.ResourceUpdated(fmt.Sprint("book:", i+2))
			}
		}},
		{"length", func(l *bookReplica) { l.ResourceUpdated("book:" + strings.Repeat("x", 1<<20)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replicas := newBookReplicas(t, 2)
				replicas[0].store.down.Store(true)
				test.raise(replicas[0])
				replicas[0].store.down.Store(false)
				eratest.Pass(time.Minute)
				for _, p := range replicas[1].peers {
					if got := drain(p); !slices.Contains(got, toolsChanged) || !slices.Contains(got, "book:1") {
						t.Errorf("the subscriber receives %q, want everything", got)
					}
				}
			})
		})
	}
}

// Many long changes take several messages.
func TestLongChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newBookReplicas(t, 2)
		for i := range 500 {
			replicas[0].ResourceUpdated(fmt.Sprint("book:", i+2, strings.Repeat("\x01", i)))
		}
		replicas[0].ResourceUpdated("book:1")
		wantAll(t, replicas, "book:1")
	})
}

// Changes before a shutdown reach the other replicas.
func TestChangesBeforeShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newBookReplicas(t, 2)
		replicas[0].ResourceUpdated("book:1")
		if err := replicas[0].Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		replicas[0].ResourceUpdated("book:1")
		wantAll(t, replicas[1:], "book:1")
	})
}

// A shutdown ends while the store is down.
func TestShutdownWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		l := newBookReplica(t, shared)
		l.store.down.Store(true)
		l.subscribe(t)
		l.ResourceUpdated("book:1")
		began := time.Now()
		if err := l.Shutdown(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("Shutdown returns %v after %v", err, time.Since(began))
		}
	})
}

// A shutdown takes no longer than its context while the store does not answer.
func TestShutdownWithSilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBookReplica(t, newStore(t))
		l.subscribe(t)
		l.store.silent.Store(true)
		l.ResourceUpdated("book:1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := l.Shutdown(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("Shutdown returns %v after %v", err, time.Since(began))
		}
	})
}

// Malformed messages of other replicas change nothing.
func TestMalformedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newBookReplicas(t, 1)
		for _, data := range []string{"", "{", `{"from":"x","changes":[{"list":"tools"}]}`, "dt1.AAAA"} {
			if err := replicas[0].store.Publish(t.Context(), "changes", []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		wantAll(t, replicas)
		eratest.WantError(t, replicas[0].peers[1].Call("x/y", ""), jsonrpc.MethodNotFound)
	})
}
