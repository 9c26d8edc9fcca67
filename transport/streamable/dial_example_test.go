package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A client and a server over HTTP. The client sends a token with each request.
func ExampleDial() {
	type In struct {
		Name string `json:"name"`
	}
	greeter := server.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	server.AddTool(greeter, server.Tool{Name: "greet"}, func(_ context.Context, _ *server.Request, in In) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	endpoint := streamable.Handler(greeter, nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()

	ctx := context.Background()
	dialer := streamable.Dial(web.URL, &streamable.DialOptions{
		Header: func(_ context.Context, header http.Header) error {
			header.Set("Authorization", "Bearer token")
			return nil
		},
	})
	session, err := client.Connect(ctx, dialer, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	greeting, err := client.CallAs[string](ctx, session, "greet", In{Name: "world"})
	fmt.Println(greeting, err)
	// Output: Hello, world! <nil>
}
