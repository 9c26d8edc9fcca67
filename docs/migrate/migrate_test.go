package migrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" { // the child process of Example_client
		if err := stdio.Run(calculator(), nil); err != nil {
			log.Fatal(err)
		}
		return
	}
	leaktest.Main(m)
}

type Sum struct {
	A int `json:"a" jsonschema_description:"first summand"`
	B int `json:"b" jsonschema_description:"second summand"`
}

func calculator() *server.Server {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(ctx context.Context, r *server.Request, in Sum) (int, error) {
			return in.A + in.B, nil
		})
	return s
}

// connected returns a client of a server in memory.
func connected(s transport.Binder, opts *client.Options) *client.Session {
	session, err := client.Connect(context.Background(), transport.Pipe(s), opts)
	if err != nil {
		log.Fatal(err)
	}
	return session
}

func Example_http() {
	s := calculator()
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()
	session, err := client.Connect(context.Background(), streamable.Dial(web.URL, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(client.CallAs[int](context.Background(), session, "add", Sum{A: 1, B: 2}, nil))
	// Output: 3 <nil>
}

func Example_rawTool() {
	s := server.New(mcp.Implementation{Name: "search", Version: "1.0.0"}, nil)
	server.AddRawTool(s, server.Tool{
		Name:        "search",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","minLength":1}},"required":["query"]}`),
	}, func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text("searched with " + string(arguments))}}, nil
	})
	session := connected(s, nil)
	defer session.Close()
	fmt.Println(client.CallAs[string](context.Background(), session, "search", json.RawMessage(`{"query":"go"}`), nil))
	_, err := client.CallAs[string](context.Background(), session, "search", json.RawMessage(`{"query":""}`), nil)
	fmt.Println(err)
	// Output:
	// searched with {"query":"go"} <nil>
	// tool "search": at "/query": expected at least 1 character, got 0 characters
}

func Example_resources() {
	s := server.New(mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	notes := map[string]string{"1": "buy bread"}
	server.AddTemplate(s, server.Template{URITemplate: "note://{id}", Name: "note", MIMEType: "text/plain"},
		func(ctx context.Context, r *server.Request, vars struct {
			ID string `json:"id"`
		}) (string, error) {
			text, ok := notes[vars.ID]
			if !ok {
				return "", mcp.ResourceNotFound("note://" + vars.ID)
			}
			return text, nil
		})
	session := connected(s, nil)
	defer session.Close()
	result, err := session.ReadResource(context.Background(), "note://1", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Contents[0].(*mcp.TextResourceContents).Text)
	// Output: buy bread
}

func Example_prompt() {
	s := server.New(mcp.Implementation{Name: "translator", Version: "1.0.0"}, nil)
	server.AddPrompt(s, server.Prompt{Name: "translate"},
		func(ctx context.Context, r *server.Request, args struct {
			Language string `json:"language"`
		}) (string, error) {
			return "Translate the last answer to " + args.Language + ".", nil
		})
	server.AddCompletion(s, server.Completion{Prompt: "translate", Argument: "language"},
		func(ctx context.Context, r *server.Request, typed string, others map[string]string) ([]string, error) {
			languages := []string{"French", "German", "Greek"}
			return slices.DeleteFunc(languages, func(l string) bool { return !strings.HasPrefix(l, typed) }), nil
		})
	session := connected(s, nil)
	defer session.Close()
	values, err := session.CompletePrompt(context.Background(), "translate", "language", "G", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values.Values)
	// Output: [German Greek]
}

func Example_progress() {
	s := server.New(mcp.Implementation{Name: "copy", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "copy"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range 3 {
			if err := ctx.Err(); err != nil { // the client has cancelled the call
				return "", err
			}
			r.Logger("copy").DebugContext(ctx, "copied a file", "number", i)
			if err := r.Progress(ctx, float64(i+1), 3, "copying"); err != nil {
				return "", err
			}
		}
		return "copied 3 files", nil
	})
	session := connected(s, nil)
	defer session.Close()
	result, err := session.CallTool(context.Background(), "copy", nil, &client.CallOptions{
		Progress: func(p *mcp.ProgressParams) { fmt.Println(p.Progress, p.Message) },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// 1 copying
	// 2 copying
	// 3 copying
	// copied 3 files
}

func Example_middleware() {
	logCalls := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			fmt.Println(call.Method(), err)
			return result, err
		}
	}
	all := server.New(mcp.Implementation{Name: "all", Version: "1.0.0"}, &server.Options{Middleware: []mcp.Middleware{logCalls}})
	if err := all.Mount(calculator().Provider(), &server.MountOptions{Prefix: "calc_"}); err != nil {
		log.Fatal(err)
	}
	defer all.Shutdown(context.Background())
	session := connected(all, nil)
	defer session.Close()
	fmt.Println(client.CallAs[int](context.Background(), session, "calc_add", Sum{A: 1, B: 2}, nil))
	// Output:
	// tools/call <nil>
	// 3 <nil>
}

func Example_proxy() {
	endpoint := streamable.Handler(calculator(), nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()

	servers, err := bridge.New(nil, bridge.Config{Alias: "calc", Dialer: streamable.Dial(web.URL, nil)})
	if err != nil {
		log.Fatal(err)
	}
	all := server.New(mcp.Implementation{Name: "all", Version: "1.0.0"}, nil)
	if err := all.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer all.Shutdown(context.Background())
	session := connected(all, nil)
	defer session.Close()
	fmt.Println(client.CallAs[int](context.Background(), session, "calc__add", Sum{A: 1, B: 2}, nil))
	// Output: 3 <nil>
}

func Example_principal() {
	s := server.New(mcp.Implementation{Name: "whoami", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		return r.Caller().Principal, nil
	})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	users := map[string]string{"Bearer sesame": "ada"}
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := users[r.Header.Get("Authorization")]
		if !ok {
			http.Error(w, "expected a bearer token", http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), user)))
	})
	web := httptest.NewServer(authenticated)
	defer web.Close()
	session, err := client.Connect(context.Background(), streamable.Dial(web.URL, &streamable.DialOptions{
		Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer sesame"}),
	}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](context.Background(), session, "whoami", nil, nil))
	// Output: ada <nil>
}

func Example_client() {
	session, err := client.Connect(context.Background(), stdio.Command(os.Args[0], []string{"serve"}, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(context.Background(), nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name, "-", tool.Description)
	}
	sum, err := client.CallAs[int](context.Background(), session, "add", map[string]any{"a": 1, "b": 2}, nil)
	fmt.Println(sum, err)
	// Output:
	// add - Add two integers.
	// 3 <nil>
}

func TestAdd(t *testing.T) {
	session, err := client.Connect(t.Context(), transport.Pipe(calculator()), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if sum, err := client.CallAs[int](t.Context(), session, "add", Sum{A: 1, B: 2}, nil); err != nil || sum != 3 {
		t.Errorf("1 + 2 is %d, %v", sum, err)
	}
}
