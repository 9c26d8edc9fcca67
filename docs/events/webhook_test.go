package events_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	sending "github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport"
)

// principalBinder binds links with a principal, as authentication does.
type principalBinder struct {
	*server.Server
	principal string
}

func (b principalBinder) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = b.principal
	return b.Server.Bind(link)
}

// watch subscribes to incidents. callback is the URL of the receiver, such as https://example.com/hooks.
func watch(ctx context.Context, session *client.Session, receiver *webhook.Receiver, callback string) (*webhook.Subscription, error) {
	return webhook.Subscribe(ctx, session, receiver, callback, "incident.created", json.RawMessage(`{"severity":"P1"}`),
		func(ctx context.Context, d webhook.Delivery) error {
			return save(ctx, d) // after an error, the server sends the delivery again
		}, nil)
}

var saved = make(chan webhook.Delivery, 16)

func save(_ context.Context, d webhook.Delivery) error {
	saved <- d
	return nil
}

func Example_webhook() {
	ctx := context.Background()
	mux := http.NewServeMux()
	receiver, err := webhook.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/hooks", receiver)
	web := httptest.NewTLSServer(mux)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())

	hooks, err := sending.New(&sending.Options{
		AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}, // for this example only
	})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "pager", Version: "1.0.0"}, &server.Options{Webhooks: hooks})
	incidents := addIncidents(s)
	session, err := client.Connect(ctx, transport.Pipe(principalBinder{s, "alice"}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	sub, err := watch(ctx, session, receiver, web.URL+"/hooks")
	if err != nil {
		log.Fatal(err)
	}
	if err := incidents.Publish(ctx, Incident{ID: "INC-2", Severity: "P1"}, nil); err != nil {
		log.Fatal(err)
	}
	select {
	case d := <-saved:
		var occurrence mcp.EventOccurrence
		fmt.Println(d.Type, occurrence.UnmarshalJSON(d.Body), string(occurrence.Data))
	case <-time.After(10 * time.Second):
		fmt.Println("nothing was delivered")
	}
	fmt.Println(sub.Close(ctx), s.Shutdown(ctx))
	// Output:
	// event <nil> {"id":"INC-2","severity":"P1"}
	// <nil> <nil>
}
