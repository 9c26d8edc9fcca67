package servertest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

type greeting struct{ text string }

// book is the function of a tool that uses all that a request has.
func book(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
	name, err := server.Once(r, "name", func() (string, error) { return "Ada", nil })
	if err != nil {
		return "", err
	}
	guests, err := server.Elicit[int](r, "guests", "How many guests?")
	if err != nil {
		return "", err
	}
	said, err := server.Sample(r, "wish", &mcp.CreateMessageParams{
		MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("Say something.")}}},
	})
	if err != nil {
		return "", err
	}
	r.SetChunks(2)
	r.Detach(0)
	if err := r.Progress(ctx, 1, 2, "half"); err != nil {
		return "", err
	}
	r.Logger("book").InfoContext(ctx, "booked", "guests", guests)
	wish := said.Content[0].(*mcp.TextContent).Text
	return fmt.Sprint(server.Value[greeting](r).text, " ", name, " of ", r.Caller().Principal, ", ", guests, " guests: ", wish), nil
}

// A function is called directly: its questions are answered at once, and the test gets what it sends.
func TestRequest(t *testing.T) {
	stopped := false
	t.Run("test", func(t *testing.T) {
		s := server.New(mcp.Implementation{Name: "test", Version: "1"}, &server.Options{Dependencies: []server.Dependency{
			server.Provide(func(context.Context) (greeting, func(context.Context) error, error) {
				return greeting{"Hello"}, func(context.Context) error { stopped = true; return nil }, nil
			}),
		}})
		var progress, logged []string
		r := servertest.Request(t, &servertest.RequestOptions{
			Server:   s,
			Caller:   &mcp.Caller{Version: mcp.LatestVersion, Principal: "ann", LogLevel: mcp.LevelInfo},
			Answers:  map[string]any{"How many guests?": 4, "Say something.": "Enjoy!"},
			Progress: func(p *mcp.ProgressParams) { progress = append(progress, p.Message) },
			OnLog:    func(m *mcp.LoggingMessageParams) { logged = append(logged, string(m.Data)) },
		})
		got, err := book(t.Context(), r, struct{}{})
		if err != nil || got != "Hello Ada of ann, 4 guests: Enjoy!" {
			t.Errorf("got %q, %v", got, err)
		}
		if !slices.Equal(progress, []string{"half"}) || !slices.Equal(logged, []string{`{"guests":4,"message":"booked"}`}) {
			t.Errorf("progress %q, log %q", progress, logged)
		}
	})
	if !stopped {
		t.Error("the server was not shut down")
	}
}

// Functions and middleware read from the call what the options say.
func TestRequestHasTheCall(t *testing.T) {
	for name, test := range map[string]struct {
		opts *servertest.RequestOptions
		want string
	}{
		"none":     {nil, "tools/call"},
		"tool":     {&servertest.RequestOptions{Target: &mcp.Target{Kind: mcp.KindTool, Name: "bake"}, Arguments: []byte(`{"n":1}`)}, `tools/call bake "bake" {"n":1}`},
		"prompt":   {&servertest.RequestOptions{Target: &mcp.Target{Kind: mcp.KindPrompt, Name: "greet"}}, `prompts/get greet "greet"`},
		"resource": {&servertest.RequestOptions{URI: `bread://"rye"`}, `resources/read bread://"rye" "bread://\"rye\""`},
	} {
		t.Run(name, func(t *testing.T) {
			call := servertest.Request(t, test.opts).Call()
			got := call.Method()
			if target := call.Target(); target != nil {
				got += " " + target.Name + " " + string(call.Member("name"))
			}
			if call.URI() != "" {
				got += " " + call.URI() + " " + string(call.Member("uri"))
			}
			if arguments := call.Member("arguments"); arguments != nil {
				got += " " + string(arguments)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A question without an answer, and a server that does not start, fail the test.
func TestRequestFails(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(tb testing.TB)
		want string
	}{
		"no answer": {func(tb testing.TB) {
			_, err := server.Elicit[int](servertest.Request(tb, nil), "guests", "How many guests?")
			if err == nil {
				tb.Error("there is an answer")
			}
		}, `servertest: RequestOptions.Answers has no answer to "How many guests?"`},
		"no start": {func(tb testing.TB) {
			servertest.Request(tb, &servertest.RequestOptions{Server: server.New(mcp.Implementation{Name: "test"}, &server.Options{
				Logger: slog.New(slog.DiscardHandler),
				Dependencies: []server.Dependency{server.Provide(func(context.Context) (greeting, func(context.Context) error, error) {
					return greeting{}, nil, fmt.Errorf("no oven")
				})},
			})})
		}, "servertest: start the server: starting servertest_test.greeting: no oven"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := failing(t, func(tb *fakeTB) { test.run(tb) }); !strings.Contains(got, test.want) {
				t.Errorf("the test fails with %q, want %q", got, test.want)
			}
		})
	}
}

func ExampleRequest() {
	double := func(ctx context.Context, r *server.Request, in struct{ N int }) (int, error) {
		return 2 * in.N, r.Progress(ctx, 1, 1, "doubled")
	}
	runTest(func(t testing.TB) { // in a test, t is its *testing.T
		r := servertest.Request(t, &servertest.RequestOptions{
			Progress: func(p *mcp.ProgressParams) { fmt.Println(p.Message) },
		})
		fmt.Println(double(t.Context(), r, struct{ N int }{21}))
	})
	// Output:
	// doubled
	// 42 <nil>
}
