package events_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
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
