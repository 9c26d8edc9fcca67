package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func ExampleEvents() {
	type order struct {
		Number int `json:"number"`
	}
	type filter struct {
		From int `json:"from,omitempty"`
	}
	ctx := context.Background()
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, nil)
	orders := server.AddEvent(s, server.Event{Name: "order.placed"}, func(_ *mcp.Caller, in filter, o order) (order, bool) {
		return o, o.Number >= in.From
	})
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	begun, published := make(chan struct{}, 16), make(chan struct{})
	go func() {
		defer close(published)
		<-begun
		for number := range 4 {
			if err := orders.Publish(ctx, order{number}, nil); err != nil {
				log.Print(err)
			}
		}
	}()
	opts := &client.EventsOptions{
		OnCursor: func(string) { begun <- struct{}{} }, // store the cursor here
		OnGap:    func() { log.Print("orders may be missing") },
	}
	for e, err := range client.Events[order](ctx, session, "order.placed", filter{From: 2}, opts) {
		if err != nil {
			log.Print(err)
			break
		}
		fmt.Println(e.Payload.Number)
		if e.Payload.Number == 3 {
			break
		}
	}
	<-published
	// Output:
	// 2
	// 3
}
