package dovetail_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A gateway offers the tools of other servers, and a person approves the calls that change something.
func Example_approval() {
	ctx := context.Background()
	bank := server.New(mcp.Implementation{Name: "bank", Version: "1.0.0"}, nil)
	server.AddTool(bank, server.Tool{Name: "pay", Description: "Pay an amount."},
		func(_ context.Context, _ *server.Request, in struct {
			Cents int `json:"cents"`
		}) (string, error) {
			return fmt.Sprint("paid ", in.Cents), nil
		})

	rules, err := policy.Parse([]byte(`{"rules": [{"effect": "ask", "unless": [{"annotations": {"readOnlyHint": true}}]}, {"effect": "allow"}]}`))
	if err != nil {
		log.Fatal(err)
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		log.Fatal(err)
	}
	people, err := channel.New(&channel.Options{ReconnectTimeout: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	defer people.Close()
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{approval.Guard(compiled, people, nil)},
	})
	servers, err := bridge.New(nil, bridge.Config{Alias: "bank", Dialer: transport.Pipe(bank)}) // or: stdio.Command, streamable.Dial
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()

	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle("/approval", people)
	mux.Handle("/approvals/", page.Handler(nil)) // people open it with #token= and people.Token()
	web := httptest.NewServer(mux)
	defer web.Close()

	person, err := channel.Dial(ctx, web.URL+"/approval", func(ctx context.Context, p *approval.Prompt) {
		fmt.Println("asked:", p)
		if err := p.Accept(ctx); err != nil {
			log.Print(err)
		}
	}, &channel.ClientOptions{Token: people.Token()})
	if err != nil {
		log.Fatal(err)
	}
	defer person.Close()
	session, err := client.Connect(ctx, streamable.Dial(web.URL+"/mcp", nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	said, err := client.CallAs[string](ctx, session, "bank__pay", map[string]any{"cents": 250}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(said)
	// Output:
	// asked: bank.pay(cents=250)
	// paid 250
}
