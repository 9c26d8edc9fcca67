package server_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type temperature struct {
	Celsius float64 `json:"celsius"`
}

// weather is a Result with everything.
func weather() server.Result[temperature] {
	return server.Result[temperature]{
		Value:   temperature{21.5},
		Content: []mcp.Content{mcp.Text("It is warm."), mcp.Image([]byte("chart"), "image/png")},
		Meta:    mcp.Meta(`{"weather.example/source":"station 7"}`),
	}
}

type resultService struct{}

type resultServiceIn struct {
	_ server.ToolTag `name:"method"`
}

func (resultService) Method(context.Context, resultServiceIn) (server.Result[temperature], error) {
	return weather(), nil
}

// A Result has structured content with the schema of its value, and content and _meta of its own, whatever kind of
// function returns it.
func TestResult(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "typed"}, func(context.Context, *server.Request, struct{}) (server.Result[temperature], error) {
			return weather(), nil
		})
		server.AddTool(s, server.Tool{Name: "pointer"}, func(context.Context, *server.Request, struct{}) (server.Result[*temperature], error) {
			w := weather()
			return server.Result[*temperature]{&w.Value, w.Content, w.Meta}, nil
		})
		server.AddTool(s, server.Tool{Name: "given", OutputSchema: json.RawMessage(`{"type":"object","required":["celsius"]}`)},
			func(context.Context, *server.Request, struct{}) (server.Result[temperature], error) {
				return weather(), nil
			})
		server.AddTool(s, server.Tool{Name: "dynamic"}, func(context.Context, *server.Request, struct{}) (any, error) { return weather(), nil })
		server.AddStream(s, server.Tool{Name: "stream"}, func(context.Context, *server.Request, struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) { yield(1, nil) }
		}, func(chunks iter.Seq[int]) server.Result[temperature] {
			for range chunks {
				continue
			}
			return weather()
		})
		server.AddService(s, resultService{})
		session := connect(t, s, era)
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if hasSchema := strings.Contains(string(tool.OutputSchema), `"celsius"`); hasSchema != (tool.Name != "dynamic") {
				t.Errorf("%s has the output schema %s", tool.Name, tool.OutputSchema)
			}
			result := call(t, session, tool.Name, `{}`)
			if string(result.StructuredContent) != `{"celsius":21.5}` || string(result.Meta.Get("weather.example/source")) != `"station 7"` {
				t.Errorf("%s: structured content %s, _meta %s", tool.Name, result.StructuredContent, result.Meta)
			}
			if diff := cmp.Diff(mcp.ContentList(weather().Content), result.Content); diff != "" {
				t.Errorf("%s: content (-want +got):\n%s", tool.Name, diff)
			}
		}
	})
}

// Without content, and without structured content, a result has what AddTool says.
func TestResultParts(t *testing.T) {
	content := []mcp.Content{mcp.Text("hot")}
	for name, test := range map[string]struct {
		textOnly           bool
		value              any
		content            []mcp.Content
		wantText, wantJSON string
	}{
		"value":                     {false, temperature{1}, nil, `{"celsius":1}`, `{"celsius":1}`},
		"value and content":         {false, temperature{1}, content, `hot`, `{"celsius":1}`},
		"content":                   {false, nil, content, `hot`, ``},
		"nothing":                   {false, nil, nil, ``, ``},
		"text of a value":           {true, temperature{1}, nil, `{"celsius":1}`, ``},
		"text of value and content": {true, temperature{1}, content, `hot`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "x", TextOnly: test.textOnly}, func(context.Context, *server.Request, struct{}) (server.Result[any], error) {
				return server.Result[any]{Value: test.value, Content: test.content}, nil
			})
			result := call(t, connectWith(t, s, nil), "x", `{}`)
			if result.Text() != test.wantText || string(result.StructuredContent) != test.wantJSON {
				t.Errorf("got %q and %s, want %q and %s", result.Text(), result.StructuredContent, test.wantText, test.wantJSON)
			}
		})
	}
}

type textService struct{}

type textServiceIn struct {
	_ server.ToolTag `name:"method" textOnly:"true"`
}

func (textService) Method(context.Context, textServiceIn) (temperature, error) {
	return temperature{3}, nil
}

// A tool with TextOnly has no output schema, and sends its result as text.
func TestTextOnly(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		textOnly := func(name string) server.Tool { return server.Tool{Name: name, TextOnly: true} }
		server.AddTool(s, textOnly("struct"), func(context.Context, *server.Request, struct{}) (temperature, error) { return temperature{3}, nil })
		server.AddTool(s, textOnly("pointer"), func(context.Context, *server.Request, struct{}) (*temperature, error) { return &temperature{3}, nil })
		server.AddTool(s, textOnly("any"), func(context.Context, *server.Request, struct{}) (any, error) { return temperature{3}, nil })
		server.AddTool(s, textOnly("result"), func(context.Context, *server.Request, struct{}) (server.Result[temperature], error) {
			return server.Result[temperature]{Value: temperature{3}}, nil
		})
		server.AddService(s, textService{})
		session := connect(t, s, era)
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			result := call(t, session, tool.Name, `{}`)
			if tool.OutputSchema != nil || result.StructuredContent != nil || result.Text() != `{"celsius":3}` {
				t.Errorf("%s: schema %s, structured content %s, text %q", tool.Name, tool.OutputSchema, result.StructuredContent, result.Text())
			}
		}
	})
}

type embedsResult struct {
	server.Result[temperature]
	More int
}

func toolError[Out any](tool server.Tool) error {
	tool.Name = "x"
	_, err := server.NewTool(tool, func(context.Context, *server.Request, struct{}) (out Out, err error) { return out, nil })
	return err
}

// Results that would lose a part of themselves are refused when the tool is registered.
func TestResultTypesThatAreRefused(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"pointer":         {toolError[*server.Result[temperature]](server.Tool{}), "not a pointer to it"},
		"list":            {toolError[[]server.Result[temperature]](server.Tool{}), "not a pointer to it or a part of another type"},
		"embedded":        {toolError[embedsResult](server.Tool{}), "a part of another type"},
		"in itself":       {toolError[server.Result[server.Result[temperature]]](server.Tool{}), "a part of another type"},
		"of content":      {toolError[server.Result[*mcp.TextContent]](server.Tool{}), "is content: put it into Content"},
		"of bytes":        {toolError[server.Result[[]byte]](server.Tool{}), "[]byte does not say what it holds"},
		"text and schema": {toolError[temperature](server.Tool{TextOnly: true, OutputSchema: object}), "OutputSchema: a tool with TextOnly has no structured content"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, test.err, test.want)
		}
	}
	for _, tool := range []server.Tool{{TextOnly: true}, {RequiredByTag: true}} {
		tool.Name, tool.InputSchema = "x", object
		if _, err := server.NewRawTool(tool, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return nil, nil }); err == nil {
			t.Errorf("a raw tool may have %+v", tool)
		}
	}
}

// A nil value is no result of a typed tool: it would not fit its schema.
func TestNilValueOfResult(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "x"}, func(context.Context, *server.Request, struct{}) (server.Result[*temperature], error) {
		return server.Result[*temperature]{Content: []mcp.Content{mcp.Text("nothing")}}, nil
	})
	if result := call(t, connectWith(t, s, nil), "x", `{}`); !result.IsError || result.Text() != "the function returned no result" {
		t.Errorf("got %+v", result)
	}
}
