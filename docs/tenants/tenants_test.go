package tenants_test

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A tenant is a row of the program's database.
type Tenant struct {
	Name  string
	Trial bool
}

var tenants = map[string]*Tenant{"acme": {Name: "Acme"}, "globex": {Name: "Globex", Trial: true}}

type tenantKey struct{}

// authenticate looks the key of a request up, and puts the user and the tenant into its context.
func authenticate(next http.Handler) http.Handler {
	keys := map[string][2]string{"Bearer key of ann": {"ann", "acme"}, "Bearer key of bob": {"bob", "globex"}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known, ok := keys[r.Header.Get("Authorization")] // a program compares hashes of keys
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		ctx := transport.WithPrincipal(r.Context(), known[0])
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, tenantKey{}, known[1])))
	})
}

func tenantOf(r *http.Request) string {
	tenant, _ := r.Context().Value(tenantKey{}).(string)
	return tenant
}

// open returns the server of a tenant, or nil if there is no such tenant.
func open(ctx context.Context, key string) (transport.Server, error) {
	tenant := tenants[key]
	if tenant == nil {
		return nil, nil
	}
	s := server.New(mcp.Implementation{Name: key, Version: "1.0.0"}, &server.Options{
		Instructions:  "You work for " + tenant.Name + ".",
		RetainedBytes: 4 << 20, // of each tenant
	})
	if !tenant.Trial {
		server.AddTool(s, server.Tool{Name: "export", Description: "Export all orders."}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			return "exported", nil
		})
	}
	server.AddTool(s, server.Tool{Name: "report", Description: "Report the sales of " + tenant.Name + "."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			return "sales of " + tenant.Name + ", for " + r.Caller().Principal, nil
		})
	return s, nil
}

func serve(ctx context.Context, address string) error {
	endpoint := streamable.Select(tenantOf, open, &streamable.SelectOptions{MaxServers: 500})
	mux := http.NewServeMux()
	mux.Handle("/mcp", authenticate(endpoint))
	web := httptransport.NewServer(mux)
	web.Addr = address
	served := make(chan error, 1)
	go func() { served <- web.ListenAndServe() }()
	select {
	case err := <-served:
		return errors.Join(err, endpoint.Close())
	case <-ctx.Done():
	}
	err := endpoint.Close() // shuts the servers down
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(err, web.Shutdown(stopping))
}

// TestServe checks that serve ends with its context.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
}

func connect(url, key string) *client.Session {
	session, err := client.Connect(context.Background(), streamable.Dial(url, &streamable.DialOptions{
		Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer " + key}),
	}), nil)
	if err != nil {
		log.Fatal(err)
	}
	return session
}

func Example_servers() {
	endpoint := streamable.Select(tenantOf, open, nil)
	web := httptest.NewServer(authenticate(endpoint))
	defer web.Close()
	defer endpoint.Close()
	ctx := context.Background()
	for _, user := range []string{"ann", "bob"} {
		session := connect(web.URL, "key of "+user)
		for tool := range session.Tools(ctx, nil) {
			fmt.Println(session.Server().Name, tool.Name, tool.Description)
		}
		fmt.Println(client.CallAs[string](ctx, session, "report", nil, nil))
		session.Close()
	}
	// Output:
	// acme export Export all orders.
	// acme report Report the sales of Acme.
	// sales of Acme, for ann <nil>
	// globex report Report the sales of Globex.
	// sales of Globex, for bob <nil>
}

// tenantStore returns the part of a store that belongs to a tenant.
func tenantStore(shared store.Store, secret []byte, tenant string) (store.Store, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "tenant "+tenant, 32)
	if err != nil {
		return nil, err
	}
	return store.Sealed(shared, key)
}

func Example_stores() {
	shared, err := store.NewMemory(nil) // usually store/nats or store/redis
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	ctx, secret := context.Background(), make([]byte, 32)
	acme, err := tenantStore(shared, secret, "acme")
	if err != nil {
		log.Fatal(err)
	}
	globex, err := tenantStore(shared, secret, "globex")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := acme.Create(ctx, "plan", []byte("gold"), 0); err != nil {
		log.Fatal(err)
	}
	_, err = globex.Get(ctx, "plan")
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output: true
}

// forTenant shows an entry to the users of one tenant.
func forTenant(tenant string) mcp.Guard {
	return mcp.Guard{Name: "tenant " + tenant, Visible: func(ctx context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
		return tenantOfUser(caller.Principal) == tenant
	}}
}

func tenantOfUser(user string) string { return map[string]string{"ann": "acme", "bob": "globex"}[user] }

func newReports() *server.Server {
	s := server.New(mcp.Implementation{Name: "reports", Version: "1.0.0"}, nil)
	type Order struct {
		Number string `json:"number" jsonschema:"pattern=^A-[0-9]+$"`
	}
	server.AddTool(s, server.Tool{Name: "order", Description: "Find an order by its number.", Guards: []mcp.Guard{forTenant("acme")}},
		func(ctx context.Context, r *server.Request, in Order) (string, error) {
			return "Acme order " + in.Number, nil
		})
	type Shipment struct {
		Country string `json:"country"`
		Serial  int    `json:"serial"`
	}
	server.AddTool(s, server.Tool{Name: "order", Description: "Find an order by country and serial number.", Guards: []mcp.Guard{forTenant("globex")}},
		func(ctx context.Context, r *server.Request, in Shipment) (string, error) {
			return fmt.Sprintf("Globex order %s/%d", in.Country, in.Serial), nil
		})
	return s
}

func Example_variants() {
	s := newReports()
	for user, arguments := range map[string]any{"ann": map[string]any{"number": "A-7"}, "bob": map[string]any{"country": "se", "serial": 7}} {
		ctx := transport.WithPrincipal(context.Background(), user)
		session, err := client.Connect(ctx, transport.Pipe(s), nil)
		if err != nil {
			log.Fatal(err)
		}
		for tool := range session.Tools(ctx, nil) {
			fmt.Println(user+":", tool.Name, tool.Description)
		}
		fmt.Println(client.CallAs[string](ctx, session, "order", arguments, nil))
		session.Close()
	}
	// Unordered output:
	// ann: order Find an order by its number.
	// Acme order A-7 <nil>
	// bob: order Find an order by country and serial number.
	// Globex order se/7 <nil>
}

// unlocked are the users that have unlocked the tools of the admin.
type unlocked struct {
	mu    sync.Mutex
	users map[string]bool
}

func (u *unlocked) add(user string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.users[user] = true
}

func (u *unlocked) has(user string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.users[user]
}

func newConsole() *server.Server {
	s := server.New(mcp.Implementation{Name: "console", Version: "1.0.0"}, nil)
	admins := &unlocked{users: make(map[string]bool)}
	guard := mcp.Guard{Name: "unlocked", Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
		return admins.has(caller.Principal)
	}}
	server.AddTool(s, server.Tool{Name: "restart", Guards: []mcp.Guard{guard}},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) { return "restarted", nil })
	server.AddTool(s, server.Tool{Name: "unlock", Description: "Show the tools of the admin."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			admins.add(r.Caller().Principal)
			s.ListChangedFor(r.Caller().Principal, mcp.KindTool)
			return "There are more tools now: list them again.", nil
		})
	return s
}

func Example_unlock() {
	s := newConsole()
	ctx := transport.WithPrincipal(context.Background(), "ann")
	changed := make(chan mcp.Change, 1)
	session, err := client.Connect(ctx, transport.Pipe(s), &client.Options{OnChange: func(_ context.Context, change mcp.Change) { changed <- change }})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	list := func() (names []string) {
		for tool := range session.Tools(ctx, nil) {
			names = append(names, tool.Name)
		}
		return names
	}
	subscription, err := session.Subscribe(ctx, mcp.SubscriptionFilter{ToolsListChanged: true})
	if err != nil {
		log.Fatal(err)
	}
	defer subscription.Close()
	fmt.Println(list())
	if _, err := session.CallTool(ctx, "unlock", nil, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-changed).Kind, "list changed")
	fmt.Println(list())
	// Output:
	// [unlock]
	// tool list changed
	// [restart unlock]
}
