package dovetail_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A server over HTTP has one handler for all versions of the protocol.
func Example_http() {
	ctx := context.Background()
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."}, add)

	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	web := httptest.NewServer(mux) // or: http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer web.Close()

	session, err := client.Connect(ctx, streamable.Dial(web.URL+"/mcp", nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	sum, err := client.CallAs[int](ctx, session, "add", AddIn{A: 2, B: 3}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum, "by", session.Version())
	// Output: 5 by 2026-07-28
}
