package server_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// startedDeliverer says that it runs.
type startedDeliverer struct {
	delivery.Deliverer
	running chan struct{}
}

func (d startedDeliverer) Run(ctx context.Context, _ delivery.Source) error {
	close(d.running)
	<-ctx.Done()
	return ctx.Err()
}

// Webhooks are delivered by a server that has started, until it is shut down, and not by one that could not start.
func TestWebhooksRunWithServer(t *testing.T) {
	for _, failed := range []error{nil, errors.New("the database is away")} {
		d := startedDeliverer{running: make(chan struct{})}
		s := server.New(mcp.Implementation{Name: "events", Version: "1"}, &server.Options{
			Webhooks: d,
			Dependencies: []server.Dependency{server.Provide(func(context.Context) (int, func(context.Context) error, error) {
				return 1, nil, failed
			})},
		})
		if err := s.Start(t.Context()); !errors.Is(err, failed) {
			t.Fatalf("the start has the error %v, expected %v", err, failed)
		}
		if failed == nil {
			<-d.running
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("the shutdown has the error %v", err)
		}
		select {
		case <-d.running:
			if failed != nil {
				t.Error("the deliverer of a server that could not start was run")
			}
		default:
		}
	}
}
