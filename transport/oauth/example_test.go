package oauth_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// serveProtected starts a server that requires a token of an issuer.
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

// whoAmI connects to a server, and prints the caller that the server sees.
func whoAmI(url string, authorizer *oauth.Client) {
	ctx := context.Background()
	session, err := client.Connect(ctx, streamable.Dial(url, &streamable.DialOptions{Authorizer: authorizer}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](ctx, session, "whoami", nil, nil))
}

func ExampleNewClient() {
	as, err := oauthtest.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer as.Close()
	url, stop := serveProtected(as.URL)
	defer stop()

	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
		Name:          "Example",
		AllowLoopback: true,                                    // both servers are on this machine
		Flow:          &oauth.CodeFlow{Open: oauthtest.Browse}, // a real program uses the default
	})
	if err != nil {
		log.Fatal(err)
	}
	whoAmI(url, authorizer)
	// Output: demo-person <nil>
}

// A program without a person uses a client registration.
func ExampleClientCredentials() {
	as, err := oauthtest.Start(&oauthtest.Options{Clients: []oauthtest.Client{{ID: "robot", Secret: "from the environment"}}})
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
	whoAmI(url, authorizer)
	// Output: robot <nil>
}

// With a store in a file, a person logs in once, and not in each run of the program.
func ExampleNewFileStore() {
	folder, err := os.MkdirTemp("", "oauth")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	key := make([]byte, 32) // for example from the system's key ring
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

// Library is a service with a tool that declares a scope.
type Library struct{}

type lookIn struct {
	_ server.ToolTag `name:"look" readOnly:"true"`
}

func (Library) Look(context.Context, lookIn) (string, error) {
	return "12 books", nil
}

type borrowIn struct {
	_ server.ToolTag `name:"borrow" scopes:"books:borrow"`
}

func (Library) Borrow(ctx context.Context, _ borrowIn) (string, error) {
	return "1 book for " + oauth.FromContext(ctx).Subject, nil
}

// A server requires a token. One tool needs another scope, which the client obtains when
// the tool is called.
func ExampleProtect() {
	issuer, err := oauthtest.Start(&oauthtest.Options{Clients: []oauthtest.Client{{ID: "robot", Secret: "secret"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer issuer.Close()

	s := server.New(mcp.Implementation{Name: "library", Version: "1.0.0"}, nil)
	server.AddService(s, Library{})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewUnstartedServer(nil) // a real program uses an http.Server at the resource's address
	resource := "http://" + web.Listener.Addr().String() + "/mcp"
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer.URL, AllowLoopback: true})
	if err != nil {
		log.Fatal(err)
	}
	web.Config.Handler, err = oauth.Protect(endpoint, &oauth.ProtectOptions{
		Resource: resource, AuthorizationServers: []string{issuer.URL}, Verifier: verifier,
		Scopes: []string{"library"}, CallScopes: s.Scopes,
	})
	if err != nil {
		log.Fatal(err)
	}
	web.Start()
	defer web.Close()

	res, err := http.Get(resource)
	if err != nil {
		log.Fatal(err)
	}
	res.Body.Close()
	fmt.Println("without a token:", res.Status)

	robot, err := oauth.NewClient(&oauth.ClientOptions{
		Flow: &oauth.ClientCredentials{}, AllowLoopback: true,
		Registrations: []oauth.Registration{{Issuer: issuer.URL, ClientID: "robot", Secret: "secret"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(context.Background(), streamable.Dial(resource, &streamable.DialOptions{Authorizer: robot}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for _, tool := range []string{"look", "borrow"} {
		result, err := session.CallTool(context.Background(), tool, nil, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool+":", result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// without a token: 401 Unauthorized
	// look: 12 books
	// borrow: 1 book for robot
}

// The keys are part of the options for an issuer that does not publish them.
func ExampleNewJWTVerifier() {
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{
		Issuer: "https://login.example.com",
		Keys: json.RawMessage(`{"keys":[{"kty":"EC","crv":"P-256","kid":"1",
			"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = verifier.Verify(context.Background(), "not.a.token", "https://mcp.example.com/mcp")
	invalid, ok := errors.AsType[*oauth.InvalidTokenError](err)
	fmt.Println(ok, invalid)
	// Output: true the token is not valid: it is not a JWT, or not signed with a trusted algorithm and key
}

// The operator of a server gives its callers API keys, and stores only their hashes.
func ExampleNewAPIKeyVerifier() {
	key := oauth.Secret(rand.Text())
	verifier, err := oauth.NewAPIKeyVerifier("https://mcp.example.com", []oauth.APIKey{
		{Hash: oauth.HashAPIKey(key), Subject: "ada", Scopes: []string{"notes"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	grant, err := verifier.Verify(context.Background(), key, "https://mcp.example.com/mcp")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(grant.Principal(), grant.Scopes)
	_, err = verifier.Verify(context.Background(), "a guessed key that is wrong", "https://mcp.example.com/mcp")
	fmt.Println(err)
	// Output:
	// https://mcp.example.com#ada [notes]
	// the token is not valid: it is not a known API key
}

// A server accepts tokens of two issuers.
func ExampleIssuers() {
	var verifiers oauth.Issuers = map[string]oauth.Verifier{}
	for _, issuer := range []string{"https://login.example.com", "https://partner.example"} {
		verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer})
		if err != nil {
			log.Fatal(err)
		}
		verifiers[issuer] = verifier
	}
	other, err := oauthtest.New("https://other.example", nil)
	if err != nil {
		log.Fatal(err)
	}
	token, err := other.Sign(map[string]any{"iss": other.URL, "sub": "eve", "aud": "https://mcp.example.com/mcp"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = verifiers.Verify(context.Background(), oauth.Secret(token), "https://mcp.example.com/mcp")
	fmt.Println(err)
	// Output: the token is not valid: it is from an unknown issuer
}

// A verifier for opaque tokens.
func ExampleNewIntrospection() {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"active":%t,"sub":"ada","aud":"https://mcp.example.com/mcp","scope":"library","exp":%d}`,
			r.FormValue("token") == "opaque", time.Now().Add(time.Hour).Unix())
	}))
	defer issuer.Close()
	verifier, err := oauth.NewIntrospection(&oauth.IntrospectionOptions{
		Issuer: issuer.URL, Endpoint: issuer.URL + "/introspect", AllowLoopback: true,
		Client: oauth.Registration{ClientID: "library server", Secret: "secret"},
	})
	if err != nil {
		log.Fatal(err)
	}
	grant, err := verifier.Verify(context.Background(), "opaque", "https://mcp.example.com/mcp")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(grant.Subject, grant.Scopes)
	_, err = verifier.Verify(context.Background(), "revoked", "https://mcp.example.com/mcp")
	fmt.Println(err)
	// Output:
	// ada [library]
	// the token is not valid: its issuer says that it is not active
}

// A function that learns only while it runs which scope it needs.
func ExampleRequire() {
	s := server.New(mcp.Implementation{Name: "library", Version: "1.0.0"}, nil)
	type bookIn struct {
		Shelf string `json:"shelf"`
	}
	server.AddTool(s, server.Tool{Name: "books"}, func(ctx context.Context, _ *server.Request, in bookIn) (string, error) {
		if err := oauth.Require(ctx, "shelf:"+in.Shelf); err != nil {
			return "", err
		}
		return "12 books", nil
	})
}
