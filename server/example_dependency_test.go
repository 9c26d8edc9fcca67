package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Stock is used like a database.
type Stock struct{ loaves int }

// A dependency lives as long as its server.
func ExampleProvide() {
	stock := server.Provide(func(ctx context.Context) (*Stock, func(context.Context) error, error) {
		fmt.Println("opening the stock")
		return &Stock{loaves: 3}, func(context.Context) error {
			fmt.Println("closing the stock")
			return nil
		}, nil
	})
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{
		Dependencies: []server.Dependency{stock},
	})
	server.AddTool(s, server.Tool{Name: "loaves"}, func(ctx context.Context, r *server.Request, _ struct{}) (int, error) {
		return server.Value[*Stock](r).loaves, nil
	})

	session := dial(s, nil) // the first request starts it
	defer session.Close()
	say(session, "loaves", nil)
	if err := s.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// opening the stock
	// 3
	// closing the stock
}

// A program that calls Start gets the error before it serves.
func ExampleServer_Start() {
	stock := server.Provide(func(ctx context.Context) (*Stock, func(context.Context) error, error) {
		return nil, nil, errors.New("the door is locked")
	})
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{
		Dependencies: []server.Dependency{stock},
		Logger:       slog.New(slog.DiscardHandler),
	})
	fmt.Println(s.Start(context.Background()))
	// Output: starting *server_test.Stock: the door is locked
}
