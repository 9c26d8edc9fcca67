package oauth_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/authserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// serveProtected is a server that admits tokens of an issuer only.
func serveProtected(issuer string) (at string, stop func()) {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami", Description: "Say who calls."}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		return oauth.FromContext(ctx).Subject, nil
	})
	endpoint := streamable.Handler(s, nil)
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	at = web.URL + "/mcp"
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, AllowLoopback: true})
	if err != nil {
		log.Fatal(err)
	}
	admit, err := oauth.Protect(endpoint, &oauth.ProtectOptions{Resource: at, AuthorizationServers: []string{issuer}, Verifier: verifier})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/", admit)
	return at, func() { web.Close(); endpoint.Close() }
}

// visitInsteadOfBrowser stands for a person with a browser, who agrees to everything.
func visitInsteadOfBrowser(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func ExampleNewClient() {
	ctx := context.Background()
	as, err := authserver.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer as.Close()
	url, stop := serveProtected(as.URL)
	defer stop()

	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
		Name:          "Example",
		AllowLoopback: true,                                         // both servers are on this machine
		Flow:          &oauth.CodeFlow{Open: visitInsteadOfBrowser}, // not needed where there is a person
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(ctx, streamable.Dial(url, &streamable.DialOptions{Authorizer: authorizer}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](ctx, session, "whoami", nil))
	// Output: demo-person <nil>
}

// A program without a person has a registration of its own.
func ExampleClientCredentials() {
	ctx := context.Background()
	as, err := authserver.Start(&authserver.Options{Clients: []authserver.Client{{ID: "robot", Secret: "from the environment"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer as.Close()
	url, stop := serveProtected(as.URL)
	defer stop()

	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
		Flow:          &oauth.ClientCredentials{},
		Registrations: []oauth.Registration{{Issuer: as.URL, ClientID: "robot", Secret: "from the environment"}},
		AllowLoopback: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(ctx, streamable.Dial(url, &streamable.DialOptions{Authorizer: authorizer}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](ctx, session, "whoami", nil))
	// Output: robot <nil>
}

// With a store in a file, a person logs in once, and not each time that a program runs.
func ExampleNewFileStore() {
	folder, err := os.MkdirTemp("", "oauth")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	key := make([]byte, oauth.MinFileKey) // from the system's key ring, say
	rand.Read(key)
	store, err := oauth.NewFileStore(filepath.Join(folder, "tokens"), key)
	if err != nil {
		log.Fatal(err)
	}
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{Store: store})
	fmt.Println(authorizer, err)
	// Output: oauth.Client <nil>
}

func ExampleNewMemoryStore() {
	store := oauth.NewMemoryStore()
	err := store.Save(context.Background(), "key", "a secret")
	value, _ := store.Load(context.Background(), "key")
	fmt.Println(value, len(value), err)
	// Output: [secret] 8 <nil>
}
