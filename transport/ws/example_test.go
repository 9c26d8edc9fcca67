package ws_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/transporttest"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// An endpoint is an http.Handler.
func ExampleHandler() {
	endpoint := ws.Handler(transporttest.Server(), &ws.Options{Origins: []string{"https://app.example.com"}})
	defer endpoint.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)

	// A browser shows pages of anybody; this one may not connect.
	request := httptest.NewRequest(http.MethodGet, "http://localhost/mcp", nil)
	request.Header.Set("Origin", "https://other.example")
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code)
	// Output: 403
}

// A dialer opens a connection of its own with each Dial.
func ExampleDial() {
	endpoint := ws.Handler(transporttest.Server(), nil)
	defer endpoint.Close()
	server := httptest.NewServer(endpoint)
	defer server.Close()

	ctx := context.Background()
	conn, err := ws.Dial(server.URL, nil).Dial(ctx, handler(refuse))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	resp, err := conn.Call(ctx, "echo", jsonrpc.Raw(`{"hello":"world"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Result))
	// Output: {"hello":"world"}
}
