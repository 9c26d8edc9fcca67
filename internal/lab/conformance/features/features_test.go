package features

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // for the stack of test_panic
	leaktest.Main(m)
}

// answering returns options of a client that answers every question.
func answering(era client.Era) *client.Options {
	return &client.Options{
		Era: era, Elicit: fillIn, ElicitURLs: true,
		Sample: func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			asked := params.Messages[0].Content[0].(*mcp.TextContent).Text
			return &mcp.CreateMessageResult{
				Role: mcp.RoleAssistant, Content: mcp.SamplingContent{mcp.Text("answer to " + asked)}, Model: "test",
			}, nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work"}}, nil },
	}
}

// fillIn fills in each field of a form by its name. It omits fields with a default.
func fillIn(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if params.URL != "" {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	form, err := mcp.ParseElicitSchema(params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	for _, field := range form.Fields {
		switch field.Name {
		case "name":
			if field.Required {
				content["name"] = "Ada"
			}
		case "ok", "confirm":
			content[field.Name] = true
		case "untitledSingle":
			content[field.Name] = "option2"
		case "titledMulti":
			content[field.Name] = []string{"value1", "value3"}
		case "username", "email", "color", "context":
			content[field.Name] = "my " + field.Name
		}
	}
	encoded, err := json.Marshal(content)
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: encoded}, err
}

// inBothEras runs a test with a fresh server for a client of each era. Time is
// virtual.
func inBothEras(t *testing.T, test func(t *testing.T, s *client.Session)) {
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(nil)
				defer func() {
					if err := s.Shutdown(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				session, err := client.Connect(t.Context(), transport.Pipe(s), answering(era))
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				test(t, session)
			})
		})
	}
}

// A call contains the arguments of a tool and the expected outcome.
type call struct{ arguments, want string }

func calls() map[string]call {
	const rounds = "test_input_required_result_"
	return map[string]call{
		"test_simple_text":                  {"", "This is a simple text response for testing."},
		"test_image_content":                {"", "image/png 69"},
		"test_audio_content":                {"", "audio/wav 46"},
		"test_embedded_resource":            {"", "test://embedded-resource: This is an embedded resource content."},
		"test_resource_link":                {"", "-> test://static-text"},
		"test_multiple_content_types":       {"", `Multiple content types test: | image/png 69 | test://mixed-content-resource: {"test":"data","value":123}`},
		"test_error_handling":               {"", "error: This tool intentionally returns an error for testing"},
		"test_structured_content":           {`{"city":"Bern","days":2}`, `{"city":"Bern","unit":"celsius","temperatures":[20.5,21.5]}`},
		"test_header_parameter":             {`{"region":"eu"}`, "Answered from eu"},
		"json_schema_2020_12_tool":          {`{"email":"a@example.com"}`, `JSON Schema 2020-12 tool called with: {"email":"a@example.com"}`},
		"test_tool_with_logging":            {"", "Tool with logging executed successfully"},
		"test_logging_tool":                 {"", "Logging evaluated"},
		"test_log_levels":                   {"", "Logged four messages"},
		"test_tool_with_progress":           {"", "Tool with progress executed successfully"},
		"test_reconnection":                 {"", "Reconnection test completed successfully."},
		"test_sampling":                     {`{"prompt":"why?"}`, "LLM response: answer to why?"},
		"test_missing_capability":           {"", "Success"},
		"test_elicitation":                  {`{"message":"who?"}`, `User response: action=accept, content={"username":"my username","email":"my email"}`},
		"test_url_elicitation":              {"", "The user has agreed to go there"},
		"test_streaming_elicitation":        {"", "Streaming complete"},
		"test_once":                         {"", "Ticket 1 kept: true"},
		"greet":                             {`{"name":"World"}`, "Hello, World!"},
		"slow_compute":                      {`{"seconds":2,"label":"pi"}`, "pi: computed for 2 s"},
		"failing_job":                       {"", "error: the job failed"},
		"protocol_error_job":                {"", `failed: jsonrpc: -32603 "the job broke"`},
		"confirm_delete":                    {`{"filename":"a.txt"}`, "a.txt deleted: true"},
		"multi_input":                       {"", "Ada is sure: true"},
		"test_tool_with_task":               {"", "Worked for Ada"},
		"test_elicitation_sep1034_defaults": {"", `Elicitation completed: action=accept, content={"name":"John Doe","age":30,"score":95.5,"status":"active","verified":true}`},
		"test_elicitation_sep1330_enums":    {"", `Elicitation completed: action=accept, content={"titledMulti":["value1","value3"],"untitledSingle":"option2"}`},
		rounds + "elicitation":              {"", "Hello, Ada!"},
		rounds + "sampling":                 {"", "Sampling result: answer to What is the capital of France?"},
		rounds + "list_roots":               {"", "Found 1 root(s): file:///work"},
		rounds + "request_state":            {"", "state-ok: validated"},
		rounds + "tampered_state":           {"", "integrity-ok: state verified"},
		rounds + "multi_round":              {"", "Multi-round complete for Ada who likes my color"},
		rounds + "multiple_inputs":          {"", "Ada: answer to Generate a greeting. Found 1 root(s): file:///work"},
		rounds + "capabilities":             {"", "capabilities-ok: received elicit_input,sample_input"},
		"test_trigger_tool_change":          {"", "Mutation triggered"},
		"test_trigger_prompt_change":        {"", "Mutation triggered"},
		"test_trigger_resource_change":      {"", "Mutation triggered"},
		"test_trigger_resource_update":      {"", "1"},
		"test_timeout":                      {"", `error: tool "test_timeout" took longer than 50ms`},
		"test_panic":                        {"", `failed: jsonrpc: -32603 "internal error, reference `},
		"test_protocol_error":               {"", `failed: jsonrpc: -32602 "not like this"`},
	}
}

func TestTools(t *testing.T) {
	inBothEras(t, func(t *testing.T, s *client.Session) {
		todo := calls()
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name == "test_wait" { // ends only when it is cancelled
				continue
			}
			c, ok := todo[tool.Name]
			if !ok {
				t.Errorf("no call for the tool %s", tool.Name)
			}
			delete(todo, tool.Name)
			if tool.Name == "failing_job" && !s.Version().Modern() {
				c.want = "failed: " // it needs a task
			}
			if got := outcomeOf(s.CallTool(t.Context(), tool.Name, json.RawMessage(cmp.Or(c.arguments, "{}")), nil)); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s(%s):\n got %s\nwant %s", tool.Name, c.arguments, got, c.want)
			}
		}
		for name := range todo {
			t.Errorf("the tool %s is not listed", name)
		}
	})
}

func TestCancellation(t *testing.T) {
	inBothEras(t, func(t *testing.T, s *client.Session) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.CallTool(ctx, "test_wait", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { cancel() }})
		if err == nil {
			t.Error("a cancelled call succeeded")
		}
		synctest.Wait()
		read, err := s.ReadResource(t.Context(), "test://waits", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := read.Contents[0].(*mcp.TextResourceContents).Text, `{"waiting":0,"cancelled":1}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestResourcesAndPrompts(t *testing.T) {
	inBothEras(t, func(t *testing.T, s *client.Session) {
		var uris, prompts []string
		for resource, err := range s.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(resource.URI, "skill://") {
				continue // a file of a skill
			}
			uris = append(uris, resource.URI)
		}
		for prompt, err := range s.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			prompts = append(prompts, prompt.Name)
		}
		if want := []string{"test://static-binary", "test://static-text", "test://waits", "test://watched-resource"}; !slices.Equal(uris, want) {
			t.Errorf("resources %q, want %q", uris, want)
		}
		for _, uri := range append(uris, "test://template/123/data") {
			if _, err := s.ReadResource(t.Context(), uri, nil); err != nil {
				t.Errorf("%s: %v", uri, err)
			}
		}
		if _, err := s.ReadResource(t.Context(), "test://nothing", nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("a resource that does not exist: %v", err)
		}
		all := map[string]string{"arg1": "a", "arg2": "b", "resourceUri": "test://r"}
		wants := map[string][]string{"test_prompt_with_arguments": {"arg1", "arg2"}, "test_prompt_with_embedded_resource": {"resourceUri"}}
		for _, name := range prompts {
			arguments := map[string]string{}
			for _, argument := range wants[name] {
				arguments[argument] = all[argument]
			}
			if got, err := s.GetPrompt(t.Context(), name, arguments, nil); err != nil || len(got.Messages) == 0 {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		if len(prompts) != 5 {
			t.Errorf("prompts %q, want 5", prompts)
		}
	})
}

// outcomeOf describes the outcome of a call in one line.
func outcomeOf(result *mcp.CallToolResult, err error) string {
	if err != nil {
		return "failed: " + err.Error()
	}
	parts := make([]string, len(result.Content))
	for i, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			parts[i] = content.Text
		case *mcp.ImageContent:
			parts[i] = fmt.Sprint(content.MIMEType, " ", len(content.Data))
		case *mcp.AudioContent:
			parts[i] = fmt.Sprint(content.MIMEType, " ", len(content.Data))
		case *mcp.EmbeddedResource:
			text := content.Resource.(*mcp.TextResourceContents)
			parts[i] = text.URI + ": " + text.Text
		case *mcp.ResourceLink:
			parts[i] = "-> " + content.URI
		}
	}
	if result.IsError {
		return "error: " + strings.Join(parts, " | ")
	}
	return strings.Join(parts, " | ")
}

type serveFunc = func(ctx context.Context, address string, output io.Writer) error

func serveThree(ctx context.Context, address string, output io.Writer) error {
	shared, err := store.NewMemory(nil)
	if err != nil {
		return err
	}
	return errors.Join(ServeReplicas(ctx, 3, address, shared, output), shared.Close())
}

// startHTTP calls serve, until end is called, which returns its error. base is the URL without a
// path.
func startHTTP(t *testing.T, serve serveFunc) (base string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, output := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, "127.0.0.1:0", output) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base = regexp.MustCompile(`http://[\d.:]+`).FindString(line)
	if !strings.HasPrefix(line, "serving "+base+"/mcp ") {
		t.Fatalf("the server printed %q", line)
	}
	return base, func() error {
		cancel()
		return <-ended
	}
}

func TestHTTP(t *testing.T) {
	base, end := startHTTP(t, ServeHTTP)
	for path, dialer := range map[string]transport.Dialer{
		"/mcp": streamable.Dial(base+"/mcp", nil),
		"/sse": sse.Dial(base+"/sse", nil),
		"/ws":  ws.Dial("ws"+strings.TrimPrefix(base, "http")+"/ws", nil),
	} {
		t.Run(path, func(t *testing.T) {
			session, err := client.Connect(t.Context(), dialer, answering(client.Auto))
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := outcomeOf(session.CallTool(t.Context(), "test_sampling", json.RawMessage(`{"prompt":"why?"}`), nil)); got != "LLM response: answer to why?" {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("/health", func(t *testing.T) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get(base + "/health")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok\n" {
			t.Errorf("got %q, %v", body, err)
		}
	})
	if err := end(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// At shutdown, running calls are answered, and open streams are closed.
func TestHTTPEnds(t *testing.T) {
	t.Run("one server", func(t *testing.T) { testHTTPEnds(t, ServeHTTP) })
	t.Run("replicas", func(t *testing.T) { testHTTPEnds(t, serveThree) })
}

func testHTTPEnds(t *testing.T, serve serveFunc) {
	base, end := startHTTP(t, serve)
	session, err := client.Connect(t.Context(), streamable.Dial(base+"/mcp", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}); err != nil {
		t.Fatal(err)
	}
	begun, answered := make(chan struct{}, 3), make(chan string, 1)
	go func() {
		answered <- outcomeOf(session.CallTool(t.Context(), "test_tool_with_progress", nil,
			&client.CallOptions{Progress: func(*mcp.ProgressParams) { begun <- struct{}{} }}))
	}()
	<-begun
	if err := end(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if got := <-answered; got != "Tool with progress executed successfully" {
		t.Errorf("the running call returned %q", got)
	}
}

// Replicas answer the questions of one another, and have the same entries.
func TestReplicas(t *testing.T) {
	base, end := startHTTP(t, serveThree)
	for _, era := range []client.Era{client.Legacy, client.Modern} {
		session, err := client.Connect(t.Context(), streamable.Dial(base+"/mcp", nil), answering(era))
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if got := outcomeOf(session.CallTool(t.Context(), "test_trigger_tool_change", nil, nil)); got != "Mutation triggered" {
			t.Errorf("got %q", got)
		}
		for range 4 {
			want := "Multi-round complete for Ada who likes my color"
			if got := outcomeOf(session.CallTool(t.Context(), "test_input_required_result_multi_round", nil, nil)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			listed := 0
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				if tool.Name == "test_dynamic_tool" {
					listed++
				}
			}
			if want := map[client.Era]int{client.Legacy: 1, client.Modern: 0}[era]; listed != want { // the second call removes it
				t.Errorf("the dynamic tool is listed %d times, want %d", listed, want)
			}
		}
	}
	if err := end(); err != nil {
		t.Errorf("the replicas ended with %v", err)
	}
}

func TestHTTPAddressInUse(t *testing.T) {
	base, end := startHTTP(t, ServeHTTP)
	defer end()
	for name, serve := range map[string]serveFunc{"one server": ServeHTTP, "replicas": serveThree} {
		err := serve(t.Context(), strings.TrimPrefix(base, "http://"), io.Discard)
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: an address in use gives %v", name, err)
		}
	}
}

// The balancer sends each request to the next target, and refuses requests of more than 16 MiB.
func TestBalancer(t *testing.T) {
	var targets []*url.URL
	received := make(chan string, 10) // the target and the length of the body
	for i := range 2 {
		web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				t.Error(err)
			}
			received <- fmt.Sprint(i, " ", n)
		}))
		t.Cleanup(web.Close)
		target, err := url.Parse(web.URL)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	upstream := &http.Transport{}
	t.Cleanup(upstream.CloseIdleConnections)
	balancer := roundRobin(targets, upstream)
	for _, test := range []struct {
		size, status int
		want         string
	}{
		{1, http.StatusOK, "1 1"},
		{16 << 20, http.StatusOK, "0 16777216"},
		{16<<20 + 1, http.StatusBadRequest, ""},
		{2, http.StatusOK, "1 2"},
	} {
		w := httptest.NewRecorder()
		balancer.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", bytes.NewReader(make([]byte, test.size))))
		got := ""
		if len(received) > 0 {
			got = <-received
		}
		if w.Code != test.status || got != test.want {
			t.Errorf("%d bytes: status %d at target %q, want %d at %q", test.size, w.Code, got, test.status, test.want)
		}
	}
}
