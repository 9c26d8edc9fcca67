package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type transferIn struct {
	To     string   `json:"to"`
	Cents  int      `json:"cents"`
	Urgent bool     `json:"urgent,omitempty"`
	Labels []string `json:"labels,omitempty"`
}

// renameAmount understands the arguments of an older version.
func renameAmount(_ context.Context, arguments json.RawMessage) (json.RawMessage, error) {
	if bytes.Contains(arguments, []byte("secret")) {
		return nil, errors.New("no secrets, please")
	}
	return bytes.Replace(arguments, []byte(`"amount"`), []byte(`"cents"`), 1), nil
}

type lenientService struct{ got *transferIn }

type lenientServiceIn struct {
	_ server.ToolTag `name:"method" lenient:"true"`
	transferIn
}

func (s lenientService) Method(_ context.Context, in lenientServiceIn) error {
	*s.got = in.transferIn
	return nil
}

func (s lenientService) Annotations() server.Annotations {
	return server.Annotations{Methods: map[string]server.Method{"Method": {Prepare: renameAmount}}}
}

// All that decides about a call gets the arguments that the function gets: guards, middleware of the tool, and validation.
func TestPreparedArguments(t *testing.T) {
	const sent, want = `{"to":"ann","amount":"42","urgent":"true","labels":"rent"}`, `{"to":"ann","cents":42,"urgent":true,"labels":["rent"]}`
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen []string
		see := func(call *mcp.Call) { seen = append(seen, string(call.Member("arguments"))) }
		watch := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				see(call)
				return next(ctx, call)
			}
		}
		s := newServer(&server.Options{
			CallMiddleware: []mcp.Middleware{watch},
			Guards:         []mcp.Guard{{Name: "watch", Check: func(_ context.Context, call *mcp.Call) error { see(call); return nil }, Run: watch}},
		})
		var got transferIn
		tool := server.Tool{Name: "typed", Lenient: true, Prepare: renameAmount, CallMiddleware: []mcp.Middleware{watch}}
		server.AddTool(s, tool, func(_ context.Context, _ *server.Request, in transferIn) (string, error) {
			got = in
			return "", nil
		})
		rawTool := tool
		rawTool.Name, rawTool.InputSchema = "raw", json.RawMessage(`{"type":"object","properties":{"cents":{"type":"integer"},"urgent":{"type":"boolean"},"labels":{"type":"array"}}}`)
		server.AddRawTool(s, rawTool, func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			seen = append(seen, string(arguments))
			return &mcp.CallToolResult{}, json.Unmarshal(arguments, &got)
		})
		server.AddService(s, lenientService{&got})
		session := connect(t, s, era)
		for _, name := range []string{"typed", "raw", "method"} {
			seen, got = nil, transferIn{}
			if result := call(t, session, name, sent); result.IsError {
				t.Errorf("%s: %s", name, result.Text())
			}
			if got.To != "ann" || got.Cents != 42 || !got.Urgent || len(got.Labels) != 1 {
				t.Errorf("%s: the function got %+v", name, got)
			}
			for _, arguments := range seen {
				if arguments != want {
					t.Errorf("%s: %s was seen", name, arguments)
				}
			}
			if len(seen) < 3 {
				t.Errorf("%s: only %q was seen", name, seen)
			}
		}
	})
}

// Without Lenient, arguments of another type are refused.
func TestStrictByDefault(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "transfer"}, func(context.Context, *server.Request, transferIn) (string, error) { return "", nil })
	session := connectWith(t, s, nil)
	for _, arguments := range []string{`{"to":"ann","cents":"42"}`, `{"to":"ann","cents":42,"urgent":"true"}`, `{"to":"ann","cents":42,"labels":"rent"}`} {
		if result := call(t, session, "transfer", arguments); !result.IsError {
			t.Errorf("%s is accepted", arguments)
		}
	}
}

// The error of Prepare is for callers that the guards let through, and a fault of Prepare for the log.
func TestPrepareFails(t *testing.T) {
	hidden := mcp.Guard{Name: "ann", Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool { return caller.Info.Name == "ann" }}
	for name, test := range map[string]struct {
		prepare func(context.Context, json.RawMessage) (json.RawMessage, error)
		caller  string
		want    string // in the text of the result, or in the error
	}{
		"refuses":   {renameAmount, "ann", "no secrets, please"},
		"hidden":    {renameAmount, "bob", `unknown tool: "x"`},
		"panics":    {func(context.Context, json.RawMessage) (json.RawMessage, error) { panic("at the disco") }, "ann", "internal error, reference"},
		"no object": {func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`[]`), nil }, "ann", "internal error, reference"},
		"not JSON":  {func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{"a"`), nil }, "ann", "internal error, reference"},
		"duplicate members": {func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"a":{"b":1,"b":2}}`), nil
		}, "ann", "internal error, reference"},
	} {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				s := newServer(&server.Options{Logger: discardLogger()})
				server.AddTool(s, server.Tool{Name: "x", Prepare: test.prepare, Guards: []mcp.Guard{hidden}},
					func(context.Context, *server.Request, map[string]any) (string, error) {
						t.Error("the function runs")
						return "", nil
					})
				result, err := connectAs(t, s, era, test.caller).CallTool(t.Context(), "x", json.RawMessage(`{"a":"secret"}`), nil)
				got := message(err)
				if err == nil {
					got = result.Text()
				}
				if !strings.Contains(got, test.want) || strings.Contains(got, "disco") {
					t.Errorf("got %+v, %v, want %q", result, err, test.want)
				}
			})
		})
	}
}

// The guards of each server through which a tool is offered decide about the arguments that its function gets. They are prepared
// at most once each time that a middleware of the outermost server calls the tool.
func TestPrepareOfMountedTool(t *testing.T) {
	for name, test := range map[string]struct{ arguments, checked, want string }{
		"prepared":         {`{"to":"ann","amount":"42"}`, `{"to":"ann","cents":42}`, "42"},
		"as they are sent": {`{"to":"ann","cents":42}`, `{"to":"ann","cents":42}`, "42"},
		"refused":          {`{"to":"ann","fail":1}`, `{"to":"ann","fail":1}`, "no amount"},
	} {
		t.Run(name, func(t *testing.T) {
			var checked []string
			prepared := 0
			freeze := mcp.Guard{
				Name: "approve", Check: func(_ context.Context, call *mcp.Call) error {
					checked = append(checked, string(call.Member("arguments")))
					return nil
				}, Run: func(next mcp.Handler) mcp.Handler {
					return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
						call.FreezeArguments(errors.New("the arguments were approved"))
						return next(ctx, call)
					}
				},
			}
			twice := func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if _, err := next(ctx, call); err != nil {
						return nil, err
					}
					return next(ctx, call)
				}
			}
			innermost := newServer(&server.Options{Guards: []mcp.Guard{freeze}})
			server.AddTool(innermost, server.Tool{Name: "transfer", Lenient: true, Prepare: func(_ context.Context, arguments json.RawMessage) (json.RawMessage, error) {
				if prepared++; bytes.Contains(arguments, []byte(`"fail"`)) {
					return nil, errors.New("no amount")
				}
				return bytes.Replace(arguments, []byte(`"amount"`), []byte(`"cents"`), 1), nil
			}}, func(_ context.Context, _ *server.Request, in transferIn) (int, error) { return in.Cents, nil })
			middle := newServer(&server.Options{Guards: []mcp.Guard{freeze}})
			mount(t, middle, innermost, "bank_")
			s := newServer(&server.Options{Guards: []mcp.Guard{freeze}, Middleware: []mcp.Middleware{twice}})
			mount(t, s, middle, "the_")
			result := call(t, connectWith(t, s, nil), "the_bank_transfer", test.arguments)
			if !strings.Contains(result.Text(), test.want) || prepared < 1 || prepared > 2 || len(checked) < 3 {
				t.Errorf("got %+v, prepared %d times, after %q", result, prepared, checked)
			}
			for _, arguments := range checked {
				if arguments != test.checked {
					t.Errorf("a guard has checked %s, want %s", arguments, test.checked)
				}
			}
		})
	}
}

// The arguments of a changed entry with another schema are not those of the tool: they are prepared where the tool gets them.
func TestPrepareOfMappedEntry(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprint(guarded), func(t *testing.T) {
			entry, err := server.NewTool(server.Tool{Name: "transfer", Prepare: func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
				if bytes.Contains(a, []byte("dollars")) {
					return bytes.Replace(a, []byte(`"dollars"`), []byte(`"cents"`), 1), nil
				}
				return a, nil
			}}, func(_ context.Context, _ *server.Request, in struct {
				Cents int `json:"cents"`
			}) (int, error) {
				return in.Cents, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			catalog := server.NewCatalog([]*server.Entry{entry}, nil).Map(func(e *server.Entry) *server.Entry {
				changed := *e
				changed.Definition = mcp.NewDefinition([]byte(`{"name":"transfer","inputSchema":{"type":"object","properties":{"dollars":{"type":"integer"}},"required":["dollars"]}}`))
				changed.Handle = func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					var in struct{ Dollars int }
					if err := json.Unmarshal(call.Member("arguments"), &in); err != nil {
						return nil, err
					}
					params, err := jsonscan.Splice(nil, call.Params(), jsonscan.Edit{Name: "arguments", Value: fmt.Appendf(nil, `{"cents":%d}`, 100*in.Dollars)})
					if err != nil {
						return nil, err
					}
					inner, err := call.WithParams(params)
					if err != nil {
						return nil, err
					}
					return e.Handle(ctx, inner)
				}
				return &changed
			})
			s := newServer(nil)
			shutDownAtEnd(t, s)
			opts := &server.MountOptions{}
			if guarded {
				opts.Guards = []mcp.Guard{{Name: "g", Check: func(_ context.Context, call *mcp.Call) error {
					if string(call.Member("arguments")) != `{"dollars":5}` {
						t.Errorf("a guard sees %s", call.Member("arguments"))
					}
					return nil
				}}}
			}
			if err := s.Mount(fixed{catalog}, opts); err != nil {
				t.Fatal(err)
			}
			result := call(t, connectWith(t, s, nil), "transfer", `{"dollars":5}`)
			if result.Text() != "500" {
				t.Errorf("got %s", result.Text())
			}
		})
	}
}

// A raw tool with Unvalidated gets whatever object was sent.
func TestUnvalidated(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		// The schema has a reference that cannot be resolved here.
		tool := server.Tool{Name: "raw", Unvalidated: true, InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"https://schemas.example/a"}},"required":["a"]}`)}
		server.AddRawTool(s, tool, func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
		})
		session := connect(t, s, era)
		for _, arguments := range []string{`{}`, `{"b":[null]}`} {
			if result := call(t, session, "raw", arguments); result.IsError || result.Text() != arguments {
				t.Errorf("%s: got %+v", arguments, result)
			}
		}
		if _, err := raw(t, session, mcp.MethodToolsCall, `{"name":"raw","arguments":[1]}`); err == nil {
			t.Error("arguments that are no object are accepted")
		}
		if err := toolError[string](server.Tool{Unvalidated: true}); err == nil {
			t.Error("a typed tool may have Unvalidated")
		}
	})
}

type migratedIn struct {
	Name    string `json:"name" jsonschema:"required"`
	Comment string `json:"comment"`
	Owner   struct {
		ID    string `json:"id" validate:"required,uuid"`
		Group string `json:"group"`
	} `json:"owner"`
	Emails []string `json:"emails" binding:"omitempty,dive,required"`
}

type migratedService struct{}

type migratedServiceIn struct {
	_ server.ToolTag `name:"method" requiredByTag:"true"`
	migratedIn
}

func (migratedService) Method(context.Context, migratedServiceIn) (string, error) { return "", nil }

// With RequiredByTag, only fields with such a tag are required, in nested structs too.
func TestRequiredByTag(t *testing.T) {
	s := newServer(nil)
	nothing := func(context.Context, *server.Request, migratedIn) (string, error) { return "", nil }
	server.AddTool(s, server.Tool{Name: "tags", RequiredByTag: true}, nothing)
	server.AddTool(s, server.Tool{Name: "types"}, nothing)
	server.AddService(s, migratedService{})
	session := connectWith(t, s, nil)
	for arguments, accepted := range map[string]bool{
		`{"name":"a"}`: true,
		`{"name":"a","comment":null,"owner":{"id":"1"}}`: true,
		`{}`:                      false,
		`{"name":"a","owner":{}}`: false,
		`{"name":"a","comment":"","owner":{"id":"1","more":1}}`: false,
	} {
		for _, tool := range []string{"tags", "method"} {
			result, err := session.CallTool(t.Context(), tool, json.RawMessage(arguments), nil)
			if ok := err == nil && !result.IsError; ok != accepted {
				t.Errorf("%s of %s: %+v, %v", tool, arguments, result, err)
			}
		}
		if result, err := session.CallTool(t.Context(), "types", json.RawMessage(arguments), nil); err == nil && !result.IsError {
			t.Errorf("without the option, %s is accepted", arguments)
		}
	}
}
