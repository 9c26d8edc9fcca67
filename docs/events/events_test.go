package events_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"crypto/tls"

	"github.com/dovetail-go/dovetail/client"
	receiving "github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type Incident struct {
	ID       string `json:"id"`
	Severity string `json:"severity" jsonschema:"enum=P1,enum=P2"`
	Reporter string `json:"reporter,omitempty"`
}

type IncidentFilter struct {
	Severity string `json:"severity,omitempty" jsonschema:"enum=P1,enum=P2" jsonschema_description:"only incidents of this severity"`
	Redact   bool   `json:"redact,omitempty" jsonschema_description:"without the name of the reporter"`
}

func addIncidents(s *server.Server) *server.Topic[Incident] {
	incidents := server.AddEvent(s, server.Event{Name: "incident.created", Description: "An incident was created."},
		func(_ *mcp.Caller, in IncidentFilter, i Incident) (Incident, bool) {
			if in.Redact {
				i.Reporter = ""
			}
			return i, in.Severity == "" || in.Severity == i.Severity
		})
	return incidents
}

func newServer(opts *server.Options) *server.Server {
	return server.New(mcp.Implementation{Name: "pager", Version: "1.0.0"}, opts)
}

// connect opens a session with a server in memory.
func connect(ctx context.Context, s *server.Server) *client.Session {
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	return session
}

func Example_publish() {
	ctx := context.Background()
	s := newServer(nil)
	incidents := addIncidents(s)
	session := connect(ctx, s)
	defer session.Close()
	published := make(chan struct{})
	publish := func() {
		defer close(published)
		err := incidents.Publish(ctx, Incident{ID: "INC-1", Severity: "P1", Reporter: "Ada"}, &server.PublishOptions{
			ID: "pagerduty-4711", // the id of the source, if there is one
		})
		if err != nil {
			log.Print(err)
		}
	}
	stored := ""
	opts := &client.EventsOptions{
		Cursor: stored, // "" begins now
		OnCursor: func(cursor string) {
			if stored == "" {
				go publish()
			}
			stored = cursor
		},
		OnGap: func() { log.Print("incidents may be missing: read the list of open incidents") },
	}
	for e, err := range client.Events[Incident](ctx, session, "incident.created", IncidentFilter{Severity: "P1", Redact: true}, opts) {
		if err != nil {
			log.Print(err) // the subscription has ended
			break
		}
		fmt.Println(e.ID, e.Name, e.Payload)
		break
	}
	<-published
	// Output:
	// pagerduty-4711 incident.created {INC-1 P1 }
}

func Example_list() {
	ctx := context.Background()
	s := newServer(nil)
	addIncidents(s)
	session := connect(ctx, s)
	defer session.Close()
	for event, err := range session.EventTypes(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Name, event.Delivery, event.Description)
	}
	// Output:
	// incident.created [push poll] An incident was created.
}

// principalBinder binds links with a principal, as authentication does.
type principalBinder struct {
	*server.Server
	principal string
}

func (b principalBinder) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = b.principal
	return b.Server.Bind(link)
}

func Example_webhook() {
	ctx := context.Background()
	receiver, err := receiving.New(nil) // an http.Handler
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewTLSServer(http.StripPrefix("/hooks", receiver))
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())

	hooks, err := webhook.New(&webhook.Options{
		AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}, // for this example only
	})
	if err != nil {
		log.Fatal(err)
	}
	s := newServer(&server.Options{Webhooks: hooks})
	incidents := addIncidents(s)
	session, err := client.Connect(ctx, transport.Pipe(principalBinder{s, "alice"}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	delivered := make(chan receiving.Delivery, 16)
	store := func(_ context.Context, d receiving.Delivery) error {
		delivered <- d // with an error, the server sends the delivery again
		return nil
	}
	sub, err := receiving.Subscribe(ctx, session, receiver, "https://127.0.0.1:"+port+"/hooks/", "incident.created", json.RawMessage(`{"severity":"P1"}`), store, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := incidents.Publish(ctx, Incident{ID: "INC-2", Severity: "P1"}, nil); err != nil {
		log.Fatal(err)
	}
	select {
	case d := <-delivered:
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
