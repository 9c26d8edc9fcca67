// Oauth runs a server that requires an access token and a client that obtains one:
//
//	go run ./examples/oauth [-http ADDRESS]
//
// The server, the authorization server and a simulated user are part of this program, so
// that no account is needed. With an address such as 127.0.0.1:8080 it serves there until it
// is interrupted, for any other client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	address := flag.String("http", "", "the `address` to serve MCP over HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// run serves at an address until ctx ends. Without an address it runs the client.
func run(ctx context.Context, address string, out, said io.Writer) (err error) {
	issuer, err := oauthtest.Start(&oauthtest.Options{Subject: "ada"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, issuer.Close()) }()
	if address == "" {
		library, err := serve("127.0.0.1:0", issuer.URL)
		if err != nil {
			return err
		}
		return errors.Join(visit(ctx, library.url, out), library.close())
	}
	library, err := serve(address, issuer.URL)
	if err != nil {
		return err
	}
	fmt.Fprintf(said, "the authorization server is %s\nserving MCP at %s\n", issuer.URL, library.url)
	select {
	case <-ctx.Done():
	case <-library.ended:
	}
	return library.close()
}

// A site serves the library at its own address.
type site struct {
	url      string
	endpoint httptransport.Endpoint
	web      *http.Server
	ended    chan struct{} // closed when the server has ended
	err      error         // reason, set before ended is closed
}

// serve serves the library to callers with a token of the issuer.
func serve(address, issuer string) (*site, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := newServer()
	l := &site{url: "http://" + socket.Addr().String() + "/mcp", endpoint: streamable.Handler(s, nil), ended: make(chan struct{})}
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, AllowLoopback: true})
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	protected, err := oauth.Protect(l.endpoint, &oauth.ProtectOptions{
		Resource:             l.url,
		AuthorizationServers: []string{issuer},
		Verifier:             verifier,
		Scopes:               []string{"library"}, // required for every request
		CallScopes:           s.Scopes,            // required by the called tool
	})
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	l.web = httptransport.NewServer(protected)
	go func() {
		defer close(l.ended)
		if err := l.web.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.err = err
		}
	}()
	return l, nil
}

// close waits up to one second for requests and ends the site.
func (l *site) close() error {
	err := l.endpoint.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.web.Shutdown(ctx) != nil {
		l.web.Close()
	}
	<-l.ended
	return errors.Join(err, l.err)
}

// A library lists and lends books.
type library struct{}

type booksIn struct {
	_ server.ToolTag `name:"books" description:"List the books of the library" readOnly:"true"`
}

// Books needs no scope besides the scope of the server.
func (library) Books(context.Context, booksIn) ([]string, error) {
	return []string{"Emma", "Ulysses"}, nil
}

type borrowIn struct {
	_     server.ToolTag `name:"borrow" description:"Borrow a book" scopes:"books:borrow"`
	Title string         `json:"title"`
}

// Borrow also needs the scope books:borrow, as its tag says.
func (library) Borrow(ctx context.Context, in borrowIn) (string, error) {
	return fmt.Sprintf("%s, for %s", in.Title, oauth.FromContext(ctx).Subject), nil
}

func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "library", Version: "1.0.0"}, nil)
	server.AddService(s, library{})
	return s
}

// visit connects to the library and calls its tools.
func visit(ctx context.Context, library string, out io.Writer) error {
	if err := knock(ctx, library, "", out); err != nil {
		return err
	}
	if err := knock(ctx, library, "made-up", out); err != nil {
		return err
	}
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{
		Name:          "A visitor",
		AllowLoopback: true,                                             // the servers are on this machine
		Flow:          &oauth.CodeFlow{Open: (&person{out: out}).login}, // the default opens a browser
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
		fmt.Fprintln(out, result.Text())
	}
	return nil
}

// knock sends a request with a token, or without one, and prints the response.
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
	web := httptransport.NewClient(nil)
	defer web.CloseIdleConnections()
	res, err := web.Do(req)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "→ %s\n  WWW-Authenticate: %s\n\n", res.Status, res.Header.Get("WWW-Authenticate"))
	return res.Body.Close()
}

// A person simulates a user who agrees to every request.
type person struct{ out io.Writer }

// login opens a URL of the authorization server, which redirects to the client with a code.
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
	web := httptransport.NewClient(nil)
	defer web.CloseIdleConnections()
	res, err := web.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
