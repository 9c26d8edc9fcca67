package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// visit shows how a client gets into the library at a URL.
func visit(ctx context.Context, library string, out io.Writer) error {
	if err := knock(ctx, library, "", out); err != nil {
		return err
	}
	if err := knock(ctx, library, "made-up", out); err != nil {
		return err
	}
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
		Name:          "A visitor",
		AllowLoopback: true,                                             // since everything is on this machine
		Flow:          &oauth.CodeFlow{Open: (&person{out: out}).login}, // else a browser opens
	})
	if err != nil {
		return err
	}
	session, err := client.Connect(ctx, streamable.Dial(library, &streamable.DialOptions{Authorizer: authorizer}), nil)
	if err != nil {
		return err
	}
	defer session.Close()
	for _, call := range []struct{ tool, arguments string }{{"books", `{}`}, {"borrow", `{"title":"Emma"}`}, {"borrow", `{"title":"Ulysses"}`}} {
		fmt.Fprintf(out, "\ncall %s %s\n", call.tool, call.arguments)
		result, err := session.CallTool(ctx, call.tool, json.RawMessage(call.arguments), nil)
		if err != nil {
			return err
		}
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			fmt.Fprintln(out, text.Text)
		}
	}
	return nil
}

// knock asks for the library with a token, or without one.
func knock(ctx context.Context, library, token string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, library, http.NoBody)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "POST %s\n", library)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
		fmt.Fprintf(out, "Authorization: Bearer %s\n", token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "→ %s\n  WWW-Authenticate: %s\n\n", res.Status, res.Header.Get("WWW-Authenticate"))
	return res.Body.Close()
}

// A person has a browser, agrees to everything, and is quick.
type person struct{ out io.Writer }

// login opens a URL of the authorization server, which sends the browser back to the
// client with a code.
func (p *person) login(ctx context.Context, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "the person logs in at %s://%s%s, and agrees to: %s\n", u.Scheme, u.Host, u.Path, u.Query().Get("scope"))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
