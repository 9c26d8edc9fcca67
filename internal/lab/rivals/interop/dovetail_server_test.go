package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// openDovetail returns a server of this module for every version.
func openDovetail(t *testing.T, s *setup) *testServer {
	served := server.New(mcp.Implementation{Name: "server", Version: "1"}, &server.Options{
		PageSize: 3, Logger: slog.New(slog.DiscardHandler),
	})
	h := &testServer{events: newToolEvents()}
	addWork(served, h.events)
	addQuestions(served)
	addTexts(served)
	addChanges(served, h)
	if s.transport != "streamable" {
		endpoint := sse.Handler(served, nil)
		h.handler, h.close = endpoint, func() { endpoint.Close() }
		return h
	}
	endpoint := streamable.Handler(served, nil)
	h.handler, h.close = endpoint, func() { endpoint.Close() }
	return h
}

func addTexts(s *server.Server) {
	server.AddResource(s, server.Resource{URI: textURI, MIMEType: "text/plain"},
		func(context.Context, *server.Request) (string, error) { return "hello", nil })
	server.AddResource(s, server.Resource{URI: pictureURI, MIMEType: "image/png"},
		func(context.Context, *server.Request) ([]byte, error) { return pixel, nil })
	type greeted struct {
		Name string `json:"name"`
	}
	server.AddTemplate(s, server.Template{URITemplate: greetings, MIMEType: "text/plain"},
		func(_ context.Context, _ *server.Request, to greeted) (string, error) { return "hello " + to.Name, nil })
	server.AddPrompt(s, server.Prompt{Name: "greet"},
		func(_ context.Context, _ *server.Request, to greeted) (string, error) { return "Greet " + to.Name, nil })
	complete := func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
		return namesLike(typed), nil
	}
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "name"}, complete)
	server.AddCompletion(s, server.Completion{Template: greetings, Argument: "name"}, complete)
}

func addWork(s *server.Server, events *toolEvents) {
	server.AddTool(s, server.Tool{Name: "add"},
		func(_ context.Context, _ *server.Request, in sum) (total, error) { return total{in.A + in.B}, nil })
	server.AddTool(s, server.Tool{Name: "fail"},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", errors.New("no bread today")
		})
	server.AddTool(s, server.Tool{Name: "refuse"},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: -32602, Message: "not like this"}
		})
	server.AddTool(s, server.Tool{Name: "echo"},
		func(_ context.Context, _ *server.Request, in words) (string, error) { return in.Text, nil })
	server.AddTool(s, server.Tool{Name: "route", InputSchema: json.RawMessage(routed)},
		func(_ context.Context, _ *server.Request, in region) (string, error) { return in.Region, nil })
	server.AddTool(s, server.Tool{Name: "show"},
		func(context.Context, *server.Request, struct{}) ([]mcp.Content, error) {
			embedded := &mcp.TextResourceContents{URI: textURI, MIMEType: "text/plain", Text: "hello"}
			return []mcp.Content{mcp.Text("look"), mcp.Image(pixel, "image/png"), mcp.Embed(embedded)}, nil
		})
	server.AddTool(s, server.Tool{Name: "climb"},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			for step := range 3 {
				if err := r.Progress(ctx, float64(step+1), 3, fmt.Sprint("step ", step+1)); err != nil {
					return "", err
				}
			}
			return "up", nil
		})
	server.AddTool(s, server.Tool{Name: "log"},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			logger := r.Logger("bakery")
			logger.DebugContext(ctx, "fine")
			logger.WarnContext(ctx, "smoke")
			logger.ErrorContext(ctx, "fire")
			return "logged", nil
		})
	server.AddTool(s, server.Tool{Name: "wait"},
		func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) { return events.wait(ctx) })
	server.AddTool(s, server.Tool{Name: "nap"},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			r.Detach(pause)
			return events.nap(ctx)
		})
}

func addQuestions(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "order"},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			answer, err := server.Elicit[order](r, "loaves", "How many loaves?")
			if declined, ok := errors.AsType[*server.DeclinedError](err); ok {
				return string(declined.Action), nil
			}
			return fmt.Sprint(answer.Loaves, " loaves"), err
		})
	server.AddTool(s, server.Tool{Name: "survey"},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			loaves, err := server.Elicit[order](r, "loaves", "How many loaves?")
			if err != nil {
				return "", err
			}
			liked, err := server.Elicit[color](r, "color", "Which colour?")
			return fmt.Sprint(loaves.Loaves, " ", liked.Color), err
		})
	server.AddTool(s, server.Tool{Name: "ask"},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			question := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("What is six by nine?")}}
			said, err := server.Sample(r, "ask", &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{question}, MaxTokens: 10})
			if err != nil {
				return "", err
			}
			return said.Content[0].(*mcp.TextContent).Text, nil
		})
	server.AddTool(s, server.Tool{Name: "roots"},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			roots, err := server.Roots(r, "roots")
			uris := make([]string, len(roots))
			for i, root := range roots {
				uris[i] = root.URI
			}
			return strings.Join(uris, " "), err
		})
}

func addChanges(s *server.Server, h *testServer) {
	extra, err := server.NewTool(server.Tool{Name: "extra"},
		func(context.Context, *server.Request, struct{}) (string, error) { return "still here", nil })
	if err != nil {
		panic(err)
	}
	present := false
	h.toggle = func() error {
		present = !present
		if present {
			return s.Replace(extra)
		}
		s.Remove(mcp.KindTool, "extra")
		return nil
	}
	var turns atomic.Int64
	server.AddResource(s, server.Resource{URI: clockURI, MIMEType: "text/plain"},
		func(context.Context, *server.Request) (string, error) { return fmt.Sprint("turn ", turns.Load()), nil })
	h.turn = func() error {
		turns.Add(1)
		s.ResourceUpdated(clockURI)
		return nil
	}
}
