package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

func dovetailServer(w Work, opts *server.Options) (*server.Server, error) {
	opts.Logger = slog.New(slog.DiscardHandler)
	if w.Way == Policed || w.Way == Approved {
		rules, err := hundredRules()
		if err != nil {
			return nil, err
		}
		if w.Way == Policed {
			opts.Guards = []mcp.Guard{policy.Guard(rules, nil)}
		} else {
			opts.Guards = []mcp.Guard{approval.Guard(rules, approval.Elicitation(), &approval.Options{Logger: opts.Logger})}
		}
	}
	s := server.New(mcp.Implementation{Name: "bench", Version: "1"}, opts)
	switch {
	case w.Kind == List || w.Kind == Cold:
	case w.Kind == Progress:
		addDovetailCount(s, w)
	case w.Raw:
		addDovetailRaw(s)
	default:
		server.AddTool(s, server.Tool{Name: echoTool}, func(_ context.Context, _ *server.Request, in Echo) (Echo, error) {
			return in, nil
		})
	}
	for i, add := range coldDovetail()[:w.Tools] {
		add(s, coldName(i))
	}
	return s, nil
}

// addDovetail adds a tool that takes and gives back a T.
func addDovetail[T any](s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name, Description: coldDescription},
		func(_ context.Context, _ *server.Request, in T) (T, error) { return in, nil })
}

func addDovetailCount(s *server.Server, w Work) {
	server.AddTool(s, server.Tool{Name: countTool}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range w.Units {
			if err := r.Progress(ctx, float64(i+1), float64(w.Units), ""); err != nil {
				return "", err
			}
		}
		return counted, nil
	})
}

func addDovetailRaw(s *server.Server) {
	schema := json.RawMessage(echoSchema)
	server.AddRawTool(s, server.Tool{Name: echoTool, InputSchema: schema, OutputSchema: schema},
		func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			return &mcp.CallToolResult{
				Content:           []mcp.Content{mcp.Text(string(arguments))},
				StructuredContent: arguments,
			}, nil
		})
}

// hundredRules allow echo by the last of them.
func hundredRules() (*policy.Compiled, error) {
	var p policy.Policy
	for i := range 100 {
		p.Rules = append(p.Rules, policy.Rule{
			Effect: policy.Allow,
			Match:  policy.Match{Names: []string{fmt.Sprintf("tool_%d_*", i)}},
		})
	}
	p.Rules[98].Effect = policy.Ask
	p.Rules[99].Names = []string{echoTool}
	return policy.Compile(&p)
}
