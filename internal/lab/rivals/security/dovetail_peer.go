package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// quiet discards the logs of all libraries.
func quiet() { slog.SetDefault(slog.New(slog.DiscardHandler)) }

func dovetailPeer() *Peer {
	return &Peer{
		Name: "Dovetail", serve: serveDovetail, serveStdio: serveDovetailStdio, connect: connectDovetail,
		connectCommand: connectDovetailCommand, login: loginDovetail, gateway: dovetailGateway{},
	}
}

var implementation = mcp.Implementation{Name: "peer", Version: "1"}

func newDovetail(tools []tool, opts *server.Options) *server.Server {
	s := server.New(implementation, opts)
	for _, t := range tools {
		server.AddRawTool(s, server.Tool{Name: t.name, InputSchema: json.RawMessage(t.schema)},
			func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				var in map[string]any
				if err := json.Unmarshal(arguments, &in); err != nil {
					return nil, err
				}
				text, err := t.run(ctx, in, func(message string) { _ = r.Progress(ctx, 1, 3, message) })
				if err != nil {
					return nil, err
				}
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}, nil
			})
	}
	return s
}

func serveDovetail(tools []tool) (open, protected http.Handler, err error) {
	keys, err := oauth.NewAPIKeyVerifier("http://127.0.0.1", []oauth.APIKey{
		{Hash: oauth.HashAPIKey(aliceToken), Subject: "alice"}, {Hash: oauth.HashAPIKey(bobToken), Subject: "bob"},
	})
	if err != nil {
		return nil, nil, err
	}
	protected, err = oauth.Protect(streamable.Handler(newDovetail(tools, nil), nil),
		&oauth.ProtectOptions{Resource: "http://127.0.0.1/protected", Verifier: keys})
	return streamable.Handler(newDovetail(tools, nil), nil), protected, err
}

func serveDovetailStdio(ctx context.Context, tools []tool) error {
	return stdio.Serve(ctx, newDovetail(tools, nil), nil)
}

type dovetailSession struct{ *client.Session }

func connectDovetail(ctx context.Context, url string, opts *clientOptions) (session, error) {
	o := &client.Options{}
	if opts != nil && opts.asked != nil {
		o.Elicit = func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			opts.asked(p.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
	}
	s, err := client.Connect(ctx, streamable.Dial(url, nil), o)
	if err != nil {
		return nil, err
	}
	return dovetailSession{s}, nil
}

func (s dovetailSession) close() { s.Close() }

func (s dovetailSession) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	for _, err := range s.Tools(ctx, nil) {
		if err != nil {
			return "", err
		}
	}
	result, err := s.CallTool(ctx, tool, arguments, nil)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, block := range result.Content {
		switch block := block.(type) {
		case *mcp.TextContent:
			texts = append(texts, block.Text)
		case *mcp.EmbeddedResource:
			if blob, ok := block.Resource.(*mcp.BlobResourceContents); ok {
				texts = append(texts, string(blob.Blob))
			}
		}
	}
	return strings.Join(texts, "\n"), nil
}

func connectDovetailCommand(ctx context.Context, path string, env []string) error {
	s, err := client.Connect(ctx, stdio.Command(path, nil, &stdio.CommandOptions{Env: env}), nil)
	if err != nil {
		return err
	}
	return s.Close()
}

// loginDovetail allows only the address of the server, since an address of this machine is not
// public.
func loginDovetail(ctx context.Context, url, host string) error {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
		AllowNetworks: []netip.Prefix{netip.PrefixFrom(addr, 32)}, AllowHTTP: []string{host},
		Flow: &oauth.CodeFlow{Open: func(context.Context, string) error { return fmt.Errorf("there is no browser") }},
	})
	if err != nil {
		return err
	}
	s, err := client.Connect(ctx, streamable.Dial(url, &streamable.DialOptions{Authorizer: authorizer}), nil)
	if err != nil {
		return err
	}
	return s.Close()
}
