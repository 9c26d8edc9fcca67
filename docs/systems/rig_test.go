package systems_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// What the examples find: programs, a site and two tool servers.
var (
	ctx     = context.Background()
	guard   *process.Guard
	program = os.Args[0] // an MCP server over stdio, when its argument is a name in programs
	// workspaceDir has the file app.py, and other files for reading.
	workspaceDir string
	site         string             // the URL of a web site with an MCP server
	plain        *toolserver.Server // asks nobody
	asking       *toolserver.Server // asks through approvals
	// approvals has the approvers of asking.
	approvals *channel.Channel
)

var programs = map[string][]string{"fetch": {"fetch"}, "github": {"star_repo"}, "files": {"read_file", "dangerous_tool"}, "claude-code": {"execute"}}

func TestMain(m *testing.M) {
	guard = process.Main()
	if len(os.Args) == 2 && programs[os.Args[1]] != nil {
		if err := stdio.Run(newServer(os.Args[1], programs[os.Args[1]]...), nil); err != nil {
			log.Fatal(err)
		}
		return
	}
	// Guard processes of a test with the race detector would wait a second each when they end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	leaktest.MainOf(func() int {
		defer start()()
		return m.Run()
	})
}

// start starts the site and the tool server.
func start() (stop func()) {
	s := newServer("shop", "search", "order")
	endpoints := map[string]httptransport.Endpoint{"/mcp": streamable.Handler(s, nil), "/mcp/sse": sse.Handler(s, nil), "/mcp/ws": ws.Handler(s, nil)}
	mux := http.NewServeMux()
	for path, endpoint := range endpoints {
		mux.Handle(path, endpoint)
	}
	mux.HandleFunc("/members/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		endpoints["/mcp"].ServeHTTP(w, r)
	})
	questions := ws.Handler(newAsker(), nil)
	endpoints["/questions"] = questions
	mux.Handle("/questions", questions)
	mux.HandleFunc("/weather", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "sunny") })
	mux.HandleFunc("/tools/health", func(http.ResponseWriter, *http.Request) {})
	web := httptest.NewServer(mux)
	site = web.URL

	var err error
	if workspaceDir, err = os.MkdirTemp("", "workspace"); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(workspaceDir, "app.py"), []byte("print('hello')\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	if approvals, err = channel.New(nil); err != nil {
		log.Fatal(err)
	}
	if asking, err = toolserver.Start("localhost:0", &toolserver.Options{Launch: toolserver.LaunchAny, Approver: approvals}); err != nil {
		log.Fatal(err)
	}
	if plain, err = toolserver.Start("localhost:0", &toolserver.Options{Launch: toolserver.LaunchAny}); err != nil {
		log.Fatal(err)
	}
	return func() {
		for _, endpoint := range endpoints {
			endpoint.Close()
		}
		web.Close()
		plain.Close()
		asking.Close()
		approvals.Close()
		os.RemoveAll(workspaceDir)
	}
}

// newServer returns a server whose tools answer with their names and arguments.
func newServer(name string, tools ...string) *server.Server {
	s := server.New(mcp.Implementation{Name: name, Version: "1.0.0"}, nil)
	for _, tool := range tools {
		server.AddRawTool(s, server.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(tool + " " + string(arguments))}}, nil
			})
	}
	return s
}

// newAsker returns a server with a tool that asks the client for its roots, its model and its user.
func newAsker() *server.Server {
	s := server.New(mcp.Implementation{Name: "asker", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "report"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		roots, err := server.Roots(r, "roots")
		if err != nil {
			return "", err
		}
		sampled, err := server.Sample(r, "summary", mcp.SamplingPrompt("Summarise "+roots[0].URI))
		if err != nil {
			return "", err
		}
		send, err := server.Elicit[bool](r, "send", "Send it?")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(roots[0].URI, ": ", sampled.Text(), ", sent: ", send), nil
	})
	return s
}

// accept accepts each call.
func accept(ctx context.Context, request *approval.Prompt) {
	if err := request.Accept(ctx); err != nil {
		log.Print(err)
	}
}

// callSkill calls the tools of skills.
func callSkill(_ context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	return json.Marshal(tool + " " + string(arguments))
}

// localTools is a handler that answers as those of RoomKit do.
func localTools(_ context.Context, name string, _ json.RawMessage) (string, error) {
	if name == "now" {
		return "noon", nil
	}
	return `{"error":"Unknown tool: ` + name + `"}`, nil
}

// complete returns the tokens that a model adds to a prompt.
func complete(prompt string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for token := range strings.SplitAfterSeq(prompt+" so much depends", " ") {
			if !yield(token, nil) {
				return
			}
		}
	}
}

// A database is closed with its server.
type database struct{ rows []string }

func openDatabase(context.Context) (*database, error) {
	return &database{rows: []string{"coffee"}}, nil
}

func (d *database) close(context.Context) error {
	fmt.Println("closed")
	return nil
}

// request serves a handler over a socket, sends it a request with the token of access, and prints the answer.
func request(handler http.Handler, access *gateway.Authenticator, method, path, body string) {
	web := httptest.NewServer(handler)
	defer web.Close()
	r, err := http.NewRequest(method, web.URL+path, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+access.Token())
	r.Header.Set("Content-Type", "application/json")
	response, err := web.Client().Do(r)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.StatusCode, strings.TrimSpace(string(answer)))
}

// run calls a tool of the files through the tool server, and prints the answer.
func run(tools *toolserver.Server, tool string) {
	runner, err := toolserver.NewRunner(tools.URL(), "files", &toolserver.RunnerOptions{
		Params: toolserver.ServerParams{Command: program, Args: []string{"files"}}, Token: tools.Authenticator().Token(),
	})
	if err != nil {
		log.Fatal(err)
	}
	text, err := toolserver.RunAs[string](ctx, runner, tool, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
}

// over serves a server over a socket, and passes use a session with it whose requests have the header.
func over(s *server.Server, header map[string]string, use func(session *client.Session)) {
	endpoint := streamable.Handler(s, nil)
	web := httptest.NewServer(endpoint)
	defer web.Close()
	defer endpoint.Close()
	session, err := client.Connect(ctx, streamable.Dial(web.URL, &streamable.DialOptions{Header: httptransport.StaticHeader(header)}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	use(session)
}

// call calls a tool over a socket, and prints the answer.
func call(s *server.Server, tool, arguments string) { callAs(s, nil, tool, arguments) }

// callAs calls a tool with a header.
func callAs(s *server.Server, header map[string]string, tool, arguments string) {
	over(s, header, func(session *client.Session) { callIn(session, tool, arguments) })
}

func callIn(session *client.Session, tool, arguments string) {
	result, err := session.CallTool(ctx, tool, json.RawMessage(arguments), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
}

// list prints the names of the tools.
func list(s *server.Server) {
	over(s, nil, func(session *client.Session) {
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(tool.Name)
		}
	})
}

// read reads a resource over a socket, and prints it.
func read(s *server.Server, uri string) {
	over(s, nil, func(session *client.Session) {
		result, err := session.ReadResource(ctx, uri, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		contents, err := json.Marshal(result.Contents)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(contents))
	})
}

// getPrompt gets a prompt over a socket, and prints its text.
func getPrompt(s *server.Server, name string, arguments map[string]string) {
	over(s, nil, func(session *client.Session) {
		prompt, err := session.GetPrompt(ctx, name, arguments, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(prompt.Text())
	})
}

// completePrompt completes an argument of a prompt over a socket, and prints the values.
func completePrompt(s *server.Server, prompt, argument, typed string) {
	over(s, nil, func(session *client.Session) {
		completed, err := session.CompletePrompt(ctx, prompt, argument, typed, nil, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(completed.Values)
	})
}

// stream calls a tool over a socket, and prints the chunks when they arrive.
func stream(s *server.Server, tool, arguments string) {
	over(s, nil, func(session *client.Session) {
		for chunk, err := range session.Stream(ctx, tool, json.RawMessage(arguments), nil) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(string(chunk))
		}
	})
}
