package httptransport_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A client sends a key with each request. The options of packages sse and ws have the same field.
func ExampleStaticHeader() {
	endpoint := streamable.Handler(server.New(mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil), nil)
	defer endpoint.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r)
	}))
	defer web.Close()

	session, err := client.Connect(context.Background(), streamable.Dial(web.URL, &streamable.DialOptions{
		Header: httptransport.StaticHeader(map[string]string{"X-Api-Key": "secret"}),
	}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(session.Server().Name)
	// Output: notes
}
