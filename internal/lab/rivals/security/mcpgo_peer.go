package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
)

func mcpgoPeer() *Peer {
	return &Peer{
		Name: "mcp-go", serve: serveMCPGo, serveStdio: serveMCPGoStdio, connect: connectMCPGo,
		connectCommand: connectMCPGoCommand, login: loginMCPGo,
	}
}

func newMCPGo(tools []tool) *mcpgoserver.MCPServer {
	s := mcpgoserver.NewMCPServer("peer", "1", mcpgoserver.WithToolCapabilities(true),
		mcpgoserver.WithInputSchemaValidation(), mcpgoserver.WithRecovery())
	for _, t := range tools {
		s.AddTool(mcpgo.NewToolWithRawSchema(t.name, "", json.RawMessage(t.schema)),
			func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
				text, err := t.run(ctx, r.GetArguments(), func(message string) {
					_ = s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
						"progressToken": r.Params.Meta.ProgressToken, "progress": 1, "total": 3, "message": message,
					})
				})
				if err != nil {
					return nil, err
				}
				return mcpgo.NewToolResultText(text), nil
			})
	}
	return s
}

func serveMCPGo(tools []tool) (open, protected http.Handler, err error) {
	handler := mcpgoserver.NewStreamableHTTPServer(newMCPGo(tools), mcpgoserver.WithSessionIdleTTL(10*time.Minute))
	return handler, bearer(handler), nil
}

// bearer admits requests with the token of a user.
func bearer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]; !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func serveMCPGoStdio(_ context.Context, tools []tool) error {
	return mcpgoserver.ServeStdio(newMCPGo(tools))
}

type mcpgoSession struct{ *mcpgoclient.Client }

// An mcpgoAsker calls a function for each form.
type mcpgoAsker func(message string)

func (a mcpgoAsker) Elicit(_ context.Context, r mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	a(r.Params.Message)
	return &mcpgo.ElicitationResult{ElicitationResponse: mcpgo.ElicitationResponse{Action: mcpgo.ElicitationResponseActionDecline}}, nil
}

func connectMCPGo(ctx context.Context, url string, opts *clientOptions) (session, error) {
	carrier, err := transport.NewStreamableHTTP(url)
	if err != nil {
		return nil, err
	}
	var o []mcpgoclient.ClientOption
	if opts != nil && opts.asked != nil {
		o = append(o, mcpgoclient.WithElicitationHandler(mcpgoAsker(opts.asked)))
	}
	return startMCPGo(ctx, mcpgoclient.NewClient(carrier, o...))
}

func startMCPGo(ctx context.Context, c *mcpgoclient.Client) (session, error) {
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var r mcpgo.InitializeRequest
	r.Params.ClientInfo = mcpgo.Implementation{Name: "peer", Version: "1"}
	if _, err := c.Initialize(ctx, r); err != nil {
		c.Close()
		return nil, err
	}
	return mcpgoSession{c}, nil
}

func (s mcpgoSession) close() { s.Close() }

func (s mcpgoSession) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	for _, err := range s.IterTools(ctx, mcpgo.ListToolsRequest{}) {
		if err != nil {
			return "", err
		}
	}
	var r mcpgo.CallToolRequest
	r.Params.Name, r.Params.Arguments = tool, arguments
	result, err := s.CallTool(ctx, r)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, block := range result.Content {
		switch block := block.(type) {
		case mcpgo.TextContent:
			texts = append(texts, block.Text)
		case mcpgo.EmbeddedResource:
			if blob, ok := block.Resource.(mcpgo.BlobResourceContents); ok {
				decoded, err := base64.StdEncoding.DecodeString(blob.Blob)
				if err != nil {
					return "", err
				}
				texts = append(texts, string(decoded))
			}
		}
	}
	return strings.Join(texts, "\n"), nil
}

func connectMCPGoCommand(ctx context.Context, path string, env []string) error {
	c, err := mcpgoclient.NewStdioMCPClient(path, env)
	if err != nil {
		return err
	}
	s, err := startMCPGo(ctx, c)
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// loginMCPGo does what the example of the library does: it continues the login with the handler
// in the error. It has a token that the server does not accept, since the library asks the
// server only with a token.
func loginMCPGo(ctx context.Context, url, _ string) error {
	store := transport.NewMemoryTokenStore()
	if err := store.SaveToken(ctx, &transport.Token{AccessToken: "revoked", TokenType: "Bearer"}); err != nil {
		return err
	}
	c, err := mcpgoclient.NewOAuthStreamableHttpClient(url, mcpgoclient.OAuthConfig{
		RedirectURI: "http://127.0.0.1:1/callback", PKCEEnabled: true, TokenStore: store,
	})
	if err != nil {
		return err
	}
	_, err = startMCPGo(ctx, c)
	if !mcpgoclient.IsOAuthAuthorizationRequiredError(err) {
		return err
	}
	handler := mcpgoclient.GetOAuthHandler(err)
	if err := handler.RegisterClient(ctx, "peer"); err != nil {
		return err
	}
	_, err = handler.GetAuthorizationURL(ctx, "state", "challenge")
	return err
}
