package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/authserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Library is a service: one of its tools declares a scope.
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

// A server that lets nobody in without a token. A tool needs one more scope than the
// others: the client comes back with it, by itself.
func ExampleProtect() {
	issuer, err := authserver.Start(&authserver.Options{Clients: []authserver.Client{{ID: "robot", Secret: "secret"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer issuer.Close()

	s := server.New(mcp.Implementation{Name: "library", Version: "1.0.0"}, nil)
	server.AddService(s, Library{})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewUnstartedServer(nil) // in its place, an http.Server at the resource's address
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

// The keys of an issuer that publishes none are given.
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
	// Output: true the token is not valid: it is no JWT, or not signed with an algorithm and a key that are trusted
}

// A verifier for tokens that say nothing by themselves.
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
	// the token is not valid: its issuer does not know it, or not any more
}

// A function that knows only while it runs what its caller needs.
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
