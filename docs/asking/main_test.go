package asking_test

import (
	"context"
	"encoding/json"
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

func newServer() *server.Server {
	return server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
}

// order calls the tool order with a client of each era, and prints the result.
func order(s *server.Server, opts client.Options) {
	ctx := context.Background()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		opts.Era = era
		session, err := client.Connect(ctx, transport.Pipe(s), &opts)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(session.Version())
		text, err := client.CallAs[string](ctx, session, "order", nil, nil)
		if err != nil {
			fmt.Println("error:", err)
		} else {
			fmt.Println("result:", text)
		}
		session.Close()
	}
}

// fillIn returns a user who answers each form with the same JSON.
func fillIn(content string) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println("asked:", params.Message)
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(content)}, nil
	}
}

// decline is a user who declines all forms.
func decline(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
}
