package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A function knows its caller and, in each of its runs, what an HTTP middleware has put into the
// context of the request: here the headers, which contain the id of the session if the version of the
// protocol has sessions.
func ExampleRequest() {
	type headerKey struct{}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		if _, err := server.Elicit[bool](r, "sure", "Sure?"); err != nil {
			return "", err
		}
		header, _ := ctx.Value(headerKey{}).(http.Header) // nil over stdio
		return fmt.Sprintf("%s of %s, in a session: %t",
			r.Caller().Principal, header.Get("X-Tenant"), header.Get("Mcp-Session-Id") != ""), nil
	})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := transport.WithPrincipal(r.Context(), "ada") // after checking the credentials
		endpoint.ServeHTTP(w, r.WithContext(context.WithValue(ctx, headerKey{}, r.Header)))
	}))
	defer web.Close()

	dialer := streamable.Dial(web.URL, &streamable.DialOptions{Header: func(_ context.Context, header http.Header) error {
		header.Set("X-Tenant", "blue")
		return nil
	}})
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(context.Background(), dialer, &client.Options{Era: era, Elicit: answer(mcp.ElicitAccept, `{"value":true}`)})
		if err != nil {
			log.Fatal(err)
		}
		say(session, "order", nil)
		session.Close()
	}
	// Output:
	// asked: Sure?
	// ada of blue, in a session: false
	// asked: Sure?
	// ada of blue, in a session: true
}
