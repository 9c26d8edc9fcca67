package auth_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/httptransport"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// try calls both tools and prints the results, with "ISSUER" for the URL of the issuer.
func try(ctx context.Context, session *client.Session, issuer string) {
	for _, tool := range []string{"whoami", "erase"} {
		text, err := client.CallAs[string](ctx, session, tool, nil, nil)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
			fmt.Printf("%s: %s, forbidden: %t\n", tool, refused.Message, client.IsForbidden(err))
		} else if err != nil {
			fmt.Println(tool, err)
		} else {
			fmt.Printf("%s: %s\n", tool, strings.Replace(text, issuer, "ISSUER", 1))
		}
	}
}

// An API key names a caller, and a guard checks the scopes of that caller.
func Example_apiKeys() {
	keys := apiKeys{
		sha256.Sum256([]byte("key-of-ada")):   "ada",
		sha256.Sum256([]byte("key-of-grace")): "grace",
	}
	s := newServer(checkScopes(map[string][]string{"grace": {"notes:erase"}}))

	ctx, stop := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
			Wrap:     func(endpoint http.Handler) http.Handler { return authenticate(keys, endpoint) },
			OnListen: func(at net.Addr) { address <- at.String() },
		})
	}()
	url := "http://" + <-address + "/mcp"

	for _, key := range []string{"key-of-ada", "key-of-grace", "guessed"} {
		session, err := client.Connect(ctx, streamable.Dial(url, &streamable.DialOptions{
			Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer " + key}),
		}), nil)
		if status, ok := errors.AsType[*httptransport.StatusError](err); ok {
			fmt.Println("status", status.Status)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		try(ctx, session, "none")
		session.Close()
	}
	stop()
	fmt.Println("the error of Serve:", <-ended)
	// Output:
	// whoami: ada
	// erase: Guard 'scopes' denied the tool call for 'erase', forbidden: true
	// whoami: grace
	// erase: erased
	// status 401
	// the error of Serve: <nil>
}

// The library's OAuth at both ends. The client logs in once, and once more when a tool
// needs another scope.
func Example_oauth() {
	issuer, err := oauthtest.Start(&oauthtest.Options{Subject: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	defer issuer.Close()
	s := newServer()
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewUnstartedServer(nil)
	resource := "http://" + web.Listener.Addr().String() + "/mcp"
	web.Config.Handler, err = protect(s, endpoint, resource, issuer.URL)
	if err != nil {
		log.Fatal(err)
	}
	web.Start()
	defer web.Close()

	for _, path := range []string{"/mcp", "/.well-known/oauth-protected-resource/mcp"} {
		res, err := http.Get(web.URL + path)
		if err != nil {
			log.Fatal(err)
		}
		res.Body.Close()
		fmt.Println(path, res.Status)
	}

	ctx := context.Background()
	logins := 0
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
		Name:          "My application",
		AllowLoopback: true, // for development: both servers are on this machine
		Flow: &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			logins++
			return oauthtest.Browse(ctx, url) // default: the system's browser
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(ctx, streamable.Dial(resource, &streamable.DialOptions{Authorizer: authorizer}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	try(ctx, session, issuer.URL)
	fmt.Println("logins:", logins)
	if err := authorizer.Logout(ctx, resource); err != nil {
		log.Print(err) // the tokens are deleted here, and may still be valid
	}
	// Output:
	// /mcp 401 Unauthorized
	// /.well-known/oauth-protected-resource/mcp 200 OK
	// whoami: ISSUER#ada
	// erase: erased
	// logins: 2
}

// Options that are wrong end the program before it listens.
func Example_serveProtected() {
	err := serveProtected(context.Background(), "127.0.0.1:0", newServer(), "http://example.com/mcp", "https://login.example.com")
	fmt.Println(err)
	// Output:
	// oauth.Protect: Resource: expected a URL that is https, or http on a loopback host, without user, query and fragment, got "http://example.com/mcp"
	// streamable: ServeOptions.Wrap has returned no handler
}

// A type with the method Verify returns the grant of a token, or an InvalidTokenError.
func Example_directory() {
	known := sha256.Sum256([]byte("a token"))
	d := directory{find: func(_ context.Context, hash [sha256.Size]byte) (string, []string, error) {
		if hash != known {
			return "", nil, nil
		}
		return "ada", []string{"notes"}, nil
	}}
	for _, token := range []oauth.Secret{"a token", "guessed"} {
		grant, err := d.Verify(context.Background(), token, "https://example.com/mcp")
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(grant.Principal(), grant.Scopes)
	}
	// Output:
	// https://login.example.com#ada [notes]
	// the token is not valid: the token is unknown
}

// API keys and tokens of two issuers.
func Example_issuers() {
	key := oauth.Secret(rand.Text())
	var verifiers []*oauth.JWTVerifier
	for _, issuer := range []string{"https://login.example.com", "https://partner.example"} {
		verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer})
		if err != nil {
			log.Fatal(err)
		}
		verifiers = append(verifiers, verifier)
	}
	verifier, err := newVerifier(verifiers[0], verifiers[1], []oauth.APIKey{
		{Hash: oauth.HashAPIKey(key), Subject: "ada", Scopes: []string{"notes"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	grant, err := verifier.Verify(context.Background(), key, "https://example.com/mcp")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(grant.Principal(), grant.Scopes)
	// Output: https://example.com#ada [notes]
}

// The server publishes the metadata of its proxy.
func Example_proxy() {
	handler, err := behindProxy(http.NotFoundHandler(), "a secret", "0123456789abcdef0123456789abcdef", func(string) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"/mcp", "/.well-known/oauth-authorization-server/oauth"} {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "https://example.com"+path, nil))
		fmt.Println(path, response.Code)
	}
	// Output:
	// /mcp 401
	// /.well-known/oauth-authorization-server/oauth 200
}
