// Login logs in at each URL that standard input has, one per line, with the client of go-sdk, and sends a request with
// the token. The servers know whether that has succeeded; see TestLoginsOfOthers in package oauth.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// redirect has no listener: the response is read from the redirect.
const redirect = "http://127.0.0.1:9/callback"

func main() {
	urls := make(chan string)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for at := range urls {
				if err := login(at); err != nil && os.Getenv("VERBOSE") != "" {
					fmt.Fprintln(os.Stderr, at, err)
				}
			}
		})
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		urls <- lines.Text()
	}
	close(urls)
	workers.Wait()
}

func login(at string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL:              redirect,
		AuthorizationCodeFetcher: browse,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "logins", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none",
		}},
	})
	if err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "logins", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: at, OAuthHandler: handler, DisableStandaloneSSE: true}, nil)
	if err != nil {
		return err
	}
	return session.Close()
}

// browse is a person who agrees immediately.
func browse(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	to, err := url.Parse(res.Header.Get("Location"))
	if err != nil {
		return nil, err
	}
	query := to.Query()
	return &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}, nil
}
