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
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A function knows its caller, and over HTTP the header of the request and the id of the session, which
// only earlier versions of the protocol have.
func ExampleRequest() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		if _, err := server.Elicit[bool](r, "sure", "Sure?"); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s of %s, in a session: %t",
			r.Caller().Principal, r.Header().Get("X-Tenant"), r.SessionID() != ""), nil
	})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := transport.WithPrincipal(r.Context(), "ada") // after checking the credentials
		endpoint.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer web.Close()

	dialer := streamable.Dial(web.URL, &streamable.DialOptions{Header: httptransport.StaticHeader(map[string]string{"X-Tenant": "blue"})})
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
