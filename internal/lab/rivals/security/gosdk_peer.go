package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

func gosdkPeer() *Peer {
	return &Peer{
		Name: "go-sdk", serve: serveGoSDK, serveStdio: serveGoSDKStdio, connect: connectGoSDK,
		connectCommand: connectGoSDKCommand, login: loginGoSDK,
	}
}

func newGoSDK(tools []tool) *gosdk.Server {
	s := gosdk.NewServer(&gosdk.Implementation{Name: "peer", Version: "1"}, nil)
	for _, t := range tools {
		gosdk.AddTool(s, &gosdk.Tool{Name: t.name, InputSchema: json.RawMessage(t.schema)},
			func(ctx context.Context, r *gosdk.CallToolRequest, in map[string]any) (*gosdk.CallToolResult, any, error) {
				text, err := t.run(ctx, in, func(message string) {
					_ = r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{
						ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 3, Message: message,
					})
				})
				return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: text}}}, nil, err
			})
	}
	return s
}

func serveGoSDK(tools []tool) (open, protected http.Handler, err error) {
	s := newGoSDK(tools)
	handler := gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, nil)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, ok := users[token]
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
	}
	return handler, auth.RequireBearerToken(verify, nil)(handler), nil
}

// users are the users of tokens.
var users = map[string]string{aliceToken: "alice", bobToken: "bob"}

func serveGoSDKStdio(ctx context.Context, tools []tool) error {
	return newGoSDK(tools).Run(ctx, &gosdk.StdioTransport{})
}

type gosdkSession struct{ *gosdk.ClientSession }

func connectGoSDK(ctx context.Context, url string, opts *clientOptions) (session, error) {
	o := &gosdk.ClientOptions{}
	if opts != nil && opts.asked != nil {
		o.ElicitationHandler = func(_ context.Context, r *gosdk.ElicitRequest) (*gosdk.ElicitResult, error) {
			opts.asked(r.Params.Message)
			return &gosdk.ElicitResult{Action: "decline"}, nil
		}
	}
	c := gosdk.NewClient(&gosdk.Implementation{Name: "peer", Version: "1"}, o)
	s, err := c.Connect(ctx, &gosdk.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		return nil, err
	}
	return gosdkSession{s}, nil
}

func (s gosdkSession) close() { s.Close() }

func (s gosdkSession) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	for _, err := range s.Tools(ctx, nil) {
		if err != nil {
			return "", err
		}
	}
	result, err := s.CallTool(ctx, &gosdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", err
	}
	var texts []string
	for _, block := range result.Content {
		switch block := block.(type) {
		case *gosdk.TextContent:
			texts = append(texts, block.Text)
		case *gosdk.EmbeddedResource:
			texts = append(texts, string(block.Resource.Blob))
		}
	}
	return strings.Join(texts, "\n"), nil
}

func connectGoSDKCommand(ctx context.Context, path string, env []string) error {
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), env...)
	c := gosdk.NewClient(&gosdk.Implementation{Name: "peer", Version: "1"}, nil)
	s, err := c.Connect(ctx, &gosdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return err
	}
	return s.Close()
}

func loginGoSDK(ctx context.Context, url, _ string) error {
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: &oauthex.ClientCredentials{ClientID: "peer"},
		RedirectURL:         "http://127.0.0.1:1/callback",
		AuthorizationCodeFetcher: func(context.Context, *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			return nil, errors.New("there is no browser")
		},
	})
	if err != nil {
		return err
	}
	c := gosdk.NewClient(&gosdk.Implementation{Name: "peer", Version: "1"}, nil)
	s, err := c.Connect(ctx, &gosdk.StreamableClientTransport{Endpoint: url, OAuthHandler: handler}, nil)
	if err != nil {
		return err
	}
	return s.Close()
}
