package asking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type Loaves struct {
	Count int `json:"count" jsonschema:"minimum=1,maximum=12" jsonschema_description:"how many loaves"`
}

type Sure struct {
	Sure bool `json:"sure"`
}

func Example_runs() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "order", Description: "Order bread."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			fmt.Println("the function runs")
			loaves, err := server.Elicit[Loaves](r, "loaves", "How many loaves?")
			if err != nil {
				return "", err
			}
			answer, err := server.Elicit[Sure](r, "sure", fmt.Sprintf("Order %d loaves?", loaves.Count))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d loaves, sure: %t", loaves.Count, answer.Sure), nil
		})
	order(s, client.Options{Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println("asked:", params.Message)
		content := `{"count":3}`
		if params.Message != "How many loaves?" {
			content = `{"sure":true}`
		}
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(content)}, nil
	}})
	// Output:
	// 2026-07-28
	// the function runs
	// asked: How many loaves?
	// the function runs
	// asked: Order 3 loaves?
	// the function runs
	// result: 3 loaves, sure: true
	// 2025-11-25
	// the function runs
	// asked: How many loaves?
	// the function runs
	// asked: Order 3 loaves?
	// the function runs
	// result: 3 loaves, sure: true
}

func Example_once() {
	s := newServer()
	reserved := 0
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		table, err := server.Once(r, "reserve", func() (int, error) {
			reserved++
			return reserved, nil
		})
		if err != nil {
			return "", err
		}
		if _, err := server.Elicit[Sure](r, "sure", fmt.Sprintf("Take table %d?", table)); err != nil {
			return "", err
		}
		return fmt.Sprintf("table %d of %d reserved", table, reserved), nil
	})
	order(s, client.Options{Elicit: fillIn(`{"sure":true}`)})
	// Output:
	// 2026-07-28
	// asked: Take table 1?
	// result: table 1 of 1 reserved
	// 2025-11-25
	// asked: Take table 2?
	// result: table 2 of 2 reserved
}

// payments charges a card once for each key.
type payments struct {
	mu   sync.Mutex
	done map[string]bool
}

func (p *payments) charge(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done[key] {
		p.done[key] = true
		fmt.Println("charged")
	}
}

func Example_idempotent() {
	s := newServer()
	bank := &payments{done: make(map[string]bool)}
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		if _, err := server.Elicit[Sure](r, "sure", "Pay?"); err != nil {
			return "", err
		}
		bank.charge(r.Call().ID()) // the same in all runs of the call
		return "paid", nil
	})
	order(s, client.Options{Elicit: fillIn(`{"sure":true}`)})
	// Output:
	// 2026-07-28
	// asked: Pay?
	// charged
	// result: paid
	// 2025-11-25
	// asked: Pay?
	// charged
	// result: paid
}

func Example_together() {
	s := newServer()
	runs := 0
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		runs++
		loaves, err1 := server.Elicit[Loaves](r, "loaves", "How many loaves?")
		roots, err2 := server.Roots(r, "roots")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d loaves for %s after %d runs", loaves.Count, roots[0].Name, runs), nil
	})
	order(s, client.Options{
		Elicit: fillIn(`{"count":2}`),
		Roots: func(context.Context) ([]mcp.Root, error) {
			return []mcp.Root{{URI: "file:///home/ada", Name: "ada"}}, nil
		},
	})
	// Output:
	// 2026-07-28
	// asked: How many loaves?
	// result: 2 loaves for ada after 2 runs
	// 2025-11-25
	// asked: How many loaves?
	// result: 2 loaves for ada after 4 runs
}

func Example_sample() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		result, err := server.Sample(r, "slogan", mcp.SamplingPrompt("A slogan for bread."))
		if err != nil {
			return "", err
		}
		return result.Text(), nil
	})
	order(s, client.Options{Sample: func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{
			Role: mcp.RoleAssistant, Model: "poet", Content: mcp.SamplingContent{mcp.Text("Rise and dine.")},
		}, nil
	}})
	// Output:
	// 2026-07-28
	// result: Rise and dine.
	// 2025-11-25
	// result: Rise and dine.
}

func Example_swallowed() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		loaves, err := server.Elicit[Loaves](r, "loaves", "How many loaves?")
		if err != nil {
			loaves.Count = 1 // wrong: the question is never asked
		}
		return fmt.Sprintf("%d loaves", loaves.Count), nil
	})
	order(s, client.Options{Elicit: fillIn(`{"count":3}`)})
	// Output:
	// 2026-07-28
	// result: 1 loaves
	// 2025-11-25
	// result: 1 loaves
}

func Example_declined() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		loaves, err := server.Elicit[Loaves](r, "loaves", "How many loaves?")
		if _, ok := errors.AsType[*server.DeclinedError](err); ok {
			return "nothing ordered", nil
		}
		if err != nil {
			return "", fmt.Errorf("how many loaves to order: %w", err)
		}
		return fmt.Sprintf("%d loaves", loaves.Count), nil
	})
	order(s, client.Options{Elicit: decline})
	order(s, client.Options{}) // this client cannot be asked
	order(s, client.Options{Elicit: fillIn(`{"count":500}`)})
	// Output:
	// 2026-07-28
	// result: nothing ordered
	// 2025-11-25
	// result: nothing ordered
	// 2026-07-28
	// error: jsonrpc: -32021 "the client cannot be asked: it did not declare {\"elicitation\":{\"form\":{}}}"
	// 2025-11-25
	// error: jsonrpc: -32600 "the client cannot be asked: it did not declare {\"elicitation\":{\"form\":{}}}"
	// 2026-07-28
	// asked: How many loaves?
	// error: jsonrpc: -32602 "the answer to \"loaves\": at \"/count\": expected at most 12, got 500"
	// 2025-11-25
	// asked: How many loaves?
	// error: jsonrpc: -32602 "the answer to \"loaves\": at \"/count\": expected at most 12, got 500"
}

func Example_optional() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		loaves, err := server.Elicit[Loaves](r, "loaves", "How many loaves?")
		refused, ok := errors.AsType[*jsonrpc.Error](err)
		if ok && refused.Code == mcp.CodeMissingClientCapability {
			loaves.Count = 1 // this client cannot be asked
		} else if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d loaves", loaves.Count), nil
	})
	order(s, client.Options{})
	// Output:
	// 2026-07-28
	// result: 1 loaves
	// 2025-11-25
	// result: 1 loaves
}
