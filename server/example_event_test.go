package server_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type exampleOrder struct {
	Number int `json:"number"`
	Total  int `json:"total"`
}

type exampleOrders struct {
	Minimum int `json:"minimum,omitempty" jsonschema_description:"only orders of at least this total"`
}

func matchOrders(_ *mcp.Caller, in exampleOrders, o exampleOrder) (exampleOrder, bool) {
	return o, o.Total >= in.Minimum
}

// readOrders publishes two orders and reads what a subscription gets.
func readOrders(s *server.Server, orders *server.Topic[exampleOrder]) {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	begin := make(chan string, 16)
	published := make(chan error, 2)
	go func() {
		<-begin // the subscription has a position
		published <- orders.Publish(ctx, exampleOrder{Number: 1, Total: 5}, nil)
		published <- orders.Publish(ctx, exampleOrder{Number: 2, Total: 50}, nil)
	}()
	opts := &client.EventsOptions{OnCursor: func(cursor string) { begin <- cursor }}
	for e, err := range client.Events[exampleOrder](ctx, session, "order.placed", exampleOrders{Minimum: 10}, opts) {
		fmt.Println(e.Name, e.Payload, err)
		break
	}
	fmt.Println(<-published, <-published)
}

func ExampleAddEvent() {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, nil)
	orders := server.AddEvent(s, server.Event{Name: "order.placed", Description: "A customer has placed an order."}, matchOrders)
	readOrders(s, orders)
	// Output:
	// order.placed {2 50} <nil>
	// <nil> <nil>
}

func ExampleNewEvent() {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, nil)
	entry, orders, err := server.NewEvent(server.Event{Name: "order.placed"}, matchOrders)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Replace(entry); err != nil { // at any time
		log.Fatal(err)
	}
	readOrders(s, orders)
	// Output:
	// order.placed {2 50} <nil>
	// <nil> <nil>
}
