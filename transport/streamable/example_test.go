package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
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
	greeting, err := client.CallAs[string](ctx, session, "greet", In{Name: "world"}, nil)
	fmt.Println(greeting, err)
	// Output: Hello, world! <nil>
}

// Stored events can be replayed from any number.
func ExampleNewMemoryEvents() {
	ctx := context.Background()
	store := streamable.NewMemoryEvents(&streamable.MemoryLimits{EventsPerStream: 2})
	stream := streamable.StreamID{Session: "4kd8", Stream: "b1"}
	for number := range int64(3) {
		event := streamable.StoredEvent{Number: number + 1, Message: fmt.Appendf(nil, `{"step":%d}`, number+1)}
		if err := store.Append(ctx, stream, event); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, seen := range []int64{0, 1, 3} {
		missed, err := store.After(ctx, stream, seen)
		if errors.Is(err, streamable.ErrPurged) {
			fmt.Printf("after %d: %v\n", seen, err)
			continue
		}
		for _, event := range missed {
			fmt.Printf("after %d: event %d %s\n", seen, event.Number, event.Message)
		}
	}
	// Output:
	// after 0: the events after the requested one are no longer stored
	// after 1: event 2 {"step":2}
	// after 1: event 3 {"step":3}
}

// Behind your own middleware, the principal is the name that the middleware has put into the context.
func ExampleHandler_middleware() {
	s := server.New(mcp.Implementation{Name: "whoami", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return r.Caller().Principal, nil
	})
	endpoint := streamable.Handler(s, nil)
	authenticate := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer ada's key" { // a program compares hashes of keys
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), "ada")))
	}
	web := httptest.NewServer(http.HandlerFunc(authenticate))
	defer web.Close()
	defer endpoint.Close() // first: web waits for its streams

	ctx := context.Background()
	session, err := client.Connect(ctx, streamable.Dial(web.URL, &streamable.DialOptions{
		Header: func(_ context.Context, header http.Header) error {
			header.Set("Authorization", "Bearer ada's key")
			return nil
		},
	}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](ctx, session, "whoami", struct{}{}, nil))
	// Output: ada <nil>
}
