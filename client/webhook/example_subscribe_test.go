package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	sending "github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport"
)

// authenticated binds links with a principal, as an authenticated transport does.
type authenticated struct{ *server.Server }

func (a authenticated) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = "alice"
	return a.Server.Bind(link)
}

func ExampleSubscribe() {
	ctx := context.Background()
	receiver, err := webhook.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewTLSServer(receiver)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())

	hooks, err := sending.New(&sending.Options{AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, &server.Options{Webhooks: hooks})
	orders := server.AddEvent[map[string]any, map[string]int](s, server.Event{Name: "order.placed"}, nil)
	session, err := client.Connect(ctx, transport.Pipe(authenticated{s}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	stored := make(chan json.RawMessage, 1)
	sub, err := webhook.Subscribe(ctx, session, receiver, web.URL, "order.placed", nil, func(_ context.Context, d webhook.Delivery) error {
		stored <- d.Body
		return nil
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := orders.Publish(ctx, map[string]int{"number": 7}, nil); err != nil {
		log.Fatal(err)
	}
	var occurrence mcp.EventOccurrence
	err = occurrence.UnmarshalJSON(<-stored)
	fmt.Println(occurrence.Name, string(occurrence.Data), err)
	fmt.Println(sub.Close(ctx), s.Shutdown(ctx))
	// Output:
	// order.placed {"number":7} <nil>
	// <nil> <nil>
}
