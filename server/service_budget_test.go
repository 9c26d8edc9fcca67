package server_test

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// maxReflected is how many allocations more an annotated method may cost than a
// function that was registered with its types.
const maxReflected = 6

type echoService struct{}

type echoMethodIn struct {
	_ server.ToolTag `name:"echo"`
	echoIn
}

func (echoService) Echo(_ context.Context, in echoMethodIn) (string, error) {
	return in.Message, nil
}

type pointMethodIn struct {
	_ server.ToolTag `name:"point"`
	echoIn
}

func (echoService) Point(_ context.Context, r *server.Request, in pointMethodIn, _ *shelfDB) (point, error) {
	return point{X: in.N, Y: in.N}, nil
}

// TestServiceCallBudget: a method is found, and its parameters are put together, when
// it is registered; a call only fills them in.
func TestServiceCallBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates too")
	}
	generic := newEcho()
	server.AddTool(generic, server.Tool{Name: "point"}, func(_ context.Context, _ *server.Request, in echoIn) (point, error) {
		return point{X: in.N, Y: in.N}, nil
	})
	annotated := newServer(&server.Options{Dependencies: []server.Dependency{shelf()}})
	server.AddService(annotated, echoService{})
	if err := annotated.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, tool := range []string{"echo", "point"} {
			params := `"name":"` + tool + `","arguments":{"message":"x","n":12345}`
			costs := func(s *server.Server) float64 {
				d := newDispatcher(t, s, era, mcp.MethodToolsCall, params)
				allocations, _ := cost(func() { d.dispatch(t) })
				return allocations
			}
			direct, reflected := costs(generic), costs(annotated)
			t.Logf("%s: %.1f allocations, %.1f as a method", tool, direct, reflected)
			if reflected > direct+maxReflected {
				t.Errorf("%s: a method costs %.1f allocations, a function %.1f: want at most %d more", tool, reflected, direct, maxReflected)
			}
		}
	})
}
