package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type reviewArgs struct {
	File   string `json:"file" jsonschema_description:"what to review"`
	Lines  int    `json:"lines,omitempty"`
	Strict *bool  `json:"strict"`
	hidden string
}

func newReviewer() *server.Server {
	s := newServer(nil)
	server.AddPrompt(s, server.Prompt{Name: "review", Description: "Review a file."},
		func(_ context.Context, _ *server.Request, args reviewArgs) (string, error) {
			text := "Review " + args.File + args.hidden + "."
			if args.Lines > 0 {
				text += " Some lines only."
			}
			if args.Strict != nil && *args.Strict {
				text += " Be strict."
			}
			return text, nil
		})
	server.AddPrompt(s, server.Prompt{Name: "any"}, func(_ context.Context, _ *server.Request, args map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: mcp.Text(args["a"])}, {Role: mcp.RoleAssistant, Content: mcp.Text(args["b"])},
		}, nil
	})
	server.AddPrompt(s, server.Prompt{Name: "result", Description: "unused"}, func(context.Context, *server.Request, struct{}) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: "own", Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("x")}}}, nil
	})
	server.AddPrompt(s, server.Prompt{Name: "broken"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "", errors.New("out of words")
	})
	server.AddPrompt(s, server.Prompt{Name: "nil"}, func(context.Context, *server.Request, struct{}) (*mcp.GetPromptResult, error) { return nil, nil })
	return s
}

func TestPrompts(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newReviewer(), era)
		for _, test := range []struct {
			name        string
			arguments   map[string]string
			description string
			says        string
		}{
			{"review", map[string]string{"file": "a.go"}, "Review a file.", "user: Review a.go."},
			{"review", map[string]string{"file": "a.go", "lines": "3", "strict": "true"}, "Review a file.", "user: Review a.go. Some lines only. Be strict."},
			{"any", map[string]string{"a": "1", "b": "2"}, "", "user: 1\nassistant: 2"},
			{"any", nil, "", "user: \nassistant: "},
			{"result", nil, "own", "user: x"},
		} {
			result, err := session.GetPrompt(t.Context(), test.name, test.arguments, nil)
			if err != nil {
				t.Errorf("%s%v: %v", test.name, test.arguments, err)
				continue
			}
			var says []string
			for _, m := range result.Messages {
				says = append(says, string(m.Role)+": "+m.Content.(*mcp.TextContent).Text)
			}
			if got := strings.Join(says, "\n"); got != test.says || result.Description != test.description {
				t.Errorf("%s%v says %q (%q), want %q", test.name, test.arguments, got, result.Description, test.says)
			}
		}
	})
}

func TestPromptErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newReviewer(), era)
		for _, test := range []struct {
			params string
			code   jsonrpc.Code
			says   string
		}{
			{`{"name":"review"}`, jsonrpc.InvalidParams, `missing "file" (accepted: file, lines, strict)`},
			{`{"name":"review","arguments":{"file":"a","flie":"b"}}`, jsonrpc.InvalidParams, `unknown "flie" (accepted: file, lines, strict)`},
			{`{"name":"review","arguments":{"file":"a","lines":"three"}}`, jsonrpc.InvalidParams, `"lines": expected an integer of 64 bits, got "three"`},
			{`{"name":"review","arguments":{"file":"a","strict":"perhaps"}}`, jsonrpc.InvalidParams, `true or false, got "perhaps"`},
			{`{"name":"review","arguments":{"file":7}}`, jsonrpc.InvalidParams, `"file" must be a string`},
			{`{"name":"review","arguments":[]}`, jsonrpc.InvalidParams, "an object of strings"},
			{`{"name":"unknown"}`, jsonrpc.InvalidParams, "unknown prompt"},
			{`{}`, jsonrpc.InvalidParams, "name must be a string"},
			{`{"name":"broken"}`, jsonrpc.InternalError, "out of words"},
			{`{"name":"nil"}`, jsonrpc.InternalError, "no result"},
		} {
			_, err := raw(t, session, mcp.MethodPromptsGet, test.params)
			wantCode(t, err, test.code)
			if err != nil && !strings.Contains(message(err), test.says) {
				t.Errorf("%s is refused with %q, want %q", test.params, err, test.says)
			}
		}
	})
}

func TestPromptList(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for prompt, err := range connect(t, newReviewer(), era).Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			want := []mcp.PromptArgument{
				{Name: "file", Description: "what to review", Required: true}, {Name: "lines"}, {Name: "strict"},
			}
			if prompt.Name == "review" {
				if diff := cmp.Diff(want, prompt.Arguments); diff != "" {
					t.Errorf("arguments (-want +got):\n%s", diff)
				}
			}
		}
	})
}

func newCompleter() *server.Server {
	s := newServer(nil)
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(context.Context, *server.Request, struct {
		Name, Language string
	}) (string, error) {
		return "", nil
	})
	server.AddTemplate(s, server.Template{URITemplate: "app:{x}/{y}"}, func(context.Context, *server.Request, map[string]string) (string, error) { return "", nil })
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint("name", i)
	}
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "Name"},
		func(_ context.Context, _ *server.Request, typed string, others map[string]string) ([]string, error) {
			switch typed {
			case "many":
				return many, nil
			case "hundred":
				return many[:100], nil
			case "none":
				return nil, nil
			case "broken":
				return nil, errors.New("out of names")
			}
			return []string{typed + "!", others["Language"]}, nil
		})
	server.AddCompletion(s, server.Completion{Template: "app:{x}/{y}", Argument: "y"},
		func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{"y"}, nil
		})
	return s
}

func TestCompletion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newCompleter(), era)
		for typed, want := range map[string]struct {
			shown, total int
			more         bool
		}{
			"many": {100, 150, true}, "hundred": {100, 100, false}, "none": {0, 0, false}, "A": {2, 2, false},
		} {
			got, err := session.CompletePrompt(t.Context(), "greet", "Name", typed, nil, nil)
			if err != nil || got.Values == nil || len(got.Values) != want.shown || got.Total == nil || *got.Total != want.total || got.HasMore != want.more {
				t.Errorf("%q is completed to %+v, %v; want %+v", typed, got, err, want)
			}
		}
		got, err := session.CompletePrompt(t.Context(), "greet", "Name", "A", map[string]string{"Language": "de"}, nil)
		if err != nil || !slices.Equal(got.Values, []string{"A!", "de"}) {
			t.Errorf("with another argument known the values are %+v, %v", got, err)
		}
		got, err = session.CompleteTemplate(t.Context(), "app:{x}/{y}", "y", "", nil, nil)
		if err != nil || !slices.Equal(got.Values, []string{"y"}) {
			t.Errorf("a variable is completed to %+v, %v", got, err)
		}
		// What exists and has no completion has no values.
		got, err = session.CompleteTemplate(t.Context(), "app:{x}/{y}", "x", "", nil, nil)
		if err != nil || len(got.Values) != 0 {
			t.Errorf("a variable without completion is completed to %+v, %v", got, err)
		}
		got, err = session.CompletePrompt(t.Context(), "greet", "Language", "", nil, nil)
		if err != nil || len(got.Values) != 0 {
			t.Errorf("an argument without completion is completed to %+v, %v", got, err)
		}
	})
}

// TestCompletionOfAPart checks that a function can return a part of the values, and how many there are.
func TestCompletionOfAPart(t *testing.T) {
	many := make([]string, 150)
	answers := map[string]struct {
		returned *mcp.CompletionValues
		want     mcp.CompletionValues
	}{
		"total":   {&mcp.CompletionValues{Values: []string{"a"}, Total: new(7), HasMore: true}, mcp.CompletionValues{Values: []string{"a"}, Total: new(7), HasMore: true}},
		"unknown": {&mcp.CompletionValues{Values: []string{"a"}, HasMore: true}, mcp.CompletionValues{Values: []string{"a"}, HasMore: true}},
		"all":     {&mcp.CompletionValues{Values: []string{"a"}}, mcp.CompletionValues{Values: []string{"a"}}},
		"many":    {&mcp.CompletionValues{Values: many}, mcp.CompletionValues{Values: many[:100], Total: new(150), HasMore: true}},
		"more":    {&mcp.CompletionValues{Values: many, Total: new(900)}, mcp.CompletionValues{Values: many[:100], Total: new(900), HasMore: true}},
		"none":    {&mcp.CompletionValues{}, mcp.CompletionValues{Values: []string{}}},
		"nil":     {nil, mcp.CompletionValues{Values: []string{}}},
	}
	s := newServer(nil)
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(context.Context, *server.Request, struct{ Name string }) (string, error) { return "", nil })
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "Name"}, func(_ context.Context, _ *server.Request, typed string, _ map[string]string) (*mcp.CompletionValues, error) {
		return answers[typed].returned, nil
	})
	server.AddPrompt(s, server.Prompt{Name: "serve"}, func(context.Context, *server.Request, struct{ Name string }) (string, error) { return "", nil })
	server.AddService(s, partialCompleter{func(typed string) *mcp.CompletionValues { return answers[typed].returned }})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		for typed, answer := range answers {
			for _, prompt := range []string{"greet", "serve"} {
				got, err := session.CompletePrompt(t.Context(), prompt, "Name", typed, nil, nil)
				if err != nil {
					t.Errorf("%s %q: %v", prompt, typed, err)
				} else if diff := cmp.Diff(&answer.want, got); diff != "" {
					t.Errorf("%s %q: -want +got:\n%s", prompt, typed, diff)
				}
			}
		}
	})
	if count := len(answers["many"].returned.Values); count != 150 {
		t.Errorf("the value of the function has %d values afterwards", count)
	}
}

type partialCompleter struct {
	complete func(typed string) *mcp.CompletionValues
}

func (c partialCompleter) Names(_ context.Context, in struct {
	_     server.CompletionTag `prompt:"serve" argument:"Name"`
	Value string
}) (*mcp.CompletionValues, error) {
	return c.complete(in.Value), nil
}

func TestCompletionErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newCompleter(), era)
		for params, code := range map[string]jsonrpc.Code{
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Nmae","value":""}}`:   jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"unknown"},"argument":{"name":"Name","value":""}}`: jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/resource","uri":"app:{z}"},"argument":{"name":"z","value":""}}`:   jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/tool","name":"greet"},"argument":{"name":"Name","value":""}}`:     jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt"},"argument":{"name":"Name","value":""}}`:                  jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name"}}`:              jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":7}}`:    jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"}}`:                                         jsonrpc.InvalidParams,
			`{}`: jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":""},"context":{"arguments":{"Language":7}}}`: jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":""},"context":{"arguments":[]}}`:             jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":"broken"}}`:                                  jsonrpc.InternalError,
		} {
			if _, err := raw(t, session, mcp.MethodComplete, params); err == nil {
				t.Errorf("%s is no error", params)
			} else if wantCode(t, err, code); t.Failed() {
				t.Fatalf("with %s", params)
			}
		}
	})
}

// A grain is one of a few.
type grain string

func (grain) EnumValues() []grain { return []grain{"rye", "rice", "wheat"} }

// TestEnumCompletions checks that an argument with an enum completes itself, and accepts no other
// value.
func TestEnumCompletions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddPrompt(s, server.Prompt{Name: "bake"}, func(_ context.Context, _ *server.Request, in struct {
			Grain grain  `json:"grain"`
			Size  string `json:"size,omitempty" jsonschema:"enum=small,enum=large"`
			Note  string `json:"note,omitempty"`
		}) (string, error) {
			return string(in.Grain) + in.Size, nil
		})
		server.AddTemplate(s, server.Template{URITemplate: "grain://{grain}"}, func(_ context.Context, _ *server.Request, in struct {
			Grain grain `json:"grain"`
		}) (string, error) {
			return string(in.Grain), nil
		})
		session := connect(t, s, era)
		for _, test := range []struct {
			argument, typed string
			want            []string
		}{
			{"grain", "r", []string{"rye", "rice"}}, {"grain", "", []string{"rye", "rice", "wheat"}}, {"grain", "x", []string{}},
			{"size", "l", []string{"large"}}, {"note", "", []string{}},
		} {
			got, err := session.CompletePrompt(t.Context(), "bake", test.argument, test.typed, nil, nil)
			if err != nil || !slices.Equal(got.Values, test.want) {
				t.Errorf("%s %q: completed %+v, %v; want %q", test.argument, test.typed, got, err, test.want)
			}
		}
		_, err := session.GetPrompt(t.Context(), "bake", map[string]string{"grain": "stone"}, nil)
		if wantCode(t, err, jsonrpc.InvalidParams); !strings.Contains(message(err), "expected one of rye, rice, wheat") {
			t.Errorf("the error is %v", err)
		}
		_, err = session.ReadResource(t.Context(), "grain://stone", nil)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

type named struct {
	Name string `json:"name"`
}

// TestFieldsOfEmbeddedPointersAreRefused checks that fields of an embedded nil pointer are
// rejected.
func TestFieldsOfEmbeddedPointersAreRefused(t *testing.T) {
	_, err := server.NewPrompt(server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, in struct{ *named }) (string, error) {
		return in.Name, nil
	})
	if err == nil || !strings.Contains(err.Error(), "embedded pointer") {
		t.Errorf("the error is %v", err)
	}
	entry, err := server.NewPrompt(server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, in struct{ named }) (string, error) {
		return in.Name, nil
	})
	if err != nil || entry == nil {
		t.Errorf("an embedded struct: %v", err)
	}
}

type tour struct {
	Days  int      `json:"days" jsonschema:"default=3"`
	Guide bool     `json:"guide" jsonschema:"default=true"`
	Pace  string   `json:"pace,omitempty" jsonschema:"enum=slow,enum=fast,default=slow"`
	Stops []string `json:"stops" jsonschema:"default=Bern,default=Thun"`
	Cost  float64  `json:"cost,omitempty"`
}

// TestDefaultsOfFields checks defaults in prompts and templates.
func TestDefaultsOfFields(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddPrompt(s, server.Prompt{Name: "tour"}, func(_ context.Context, _ *server.Request, in tour) (string, error) {
			defer func() { in.Stops[0] = "nowhere" }() // they are the function's
			return fmt.Sprint(in), nil
		})
		server.AddTemplate(s, server.Template{URITemplate: "tour:all{?days,guide,pace,stops*,cost}"}, func(_ context.Context, _ *server.Request, in tour) (string, error) {
			return fmt.Sprint(in), nil
		})
		session := connect(t, s, era)
		for _, test := range []struct {
			query     string
			arguments map[string]string
			want      string
		}{
			{"", nil, "{3 true slow [Bern Thun] 0}"},
			{"", nil, "{3 true slow [Bern Thun] 0}"},
			{"?days=5&guide=false&pace=fast&stops=Biel&cost=1e2", map[string]string{"days": "5", "guide": "false", "pace": "fast", "stops": "Biel", "cost": "1e2"}, "{5 false fast [Biel] 100}"},
		} {
			if got := contents(t, session, "tour:all"+test.query); !strings.Contains(got, test.want) {
				t.Errorf("%s holds %s, want %s", test.query, got, test.want)
			}
			prompt, err := session.GetPrompt(t.Context(), "tour", test.arguments, nil)
			if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != test.want {
				t.Errorf("%v gives %+v, %v, want %s", test.arguments, prompt, err, test.want)
			}
		}
		for prompt, err := range session.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			for _, argument := range prompt.Arguments {
				if argument.Required {
					t.Errorf("%s must be given", argument.Name)
				}
			}
		}
	})
}

// TestPromptArgumentsThatAreNull checks that null is read as an absent argument, and that all problems are
// reported. The fields have the same tags as the fields of tools.
func TestPromptArgumentsThatAreNull(t *testing.T) {
	type args struct {
		City string     `json:"city" jsonschema:"the city, or a part of it"`
		Days int        `json:"days" jsonschema:"default=3" description:"days to forecast"`
		Unit *unit      `json:"unit" jsonschema:"required"`
		Note *bool      `json:"note"`
		At   *time.Time `json:"at"`
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddPrompt(s, server.Prompt{Name: "weather"}, func(_ context.Context, _ *server.Request, in args) (string, error) {
			return fmt.Sprint(in.City, in.Days, *in.Unit, in.Note), nil
		})
		server.AddPrompt(s, server.Prompt{Name: "none"}, func(context.Context, *server.Request, struct{}) (string, error) { return "nothing", nil })
		session := connect(t, s, era)
		for params, want := range map[string]string{
			`{"name":"weather","arguments":{"city":"Bern","days":null,"unit":"C","note":null}}`: "Bern3C<nil>",
			`{"name":"weather","arguments":{"city":null,"unit":"C"}}`:                           `arguments: "city" must be a string`,
			`{"name":"weather","arguments":{"city":"Bern","unit":null}}`:                        `arguments: "unit" must be a string`,
			`{"name":"weather","arguments":{"city":"Bern","unit":"C","x":null}}`:                `arguments: "x" must be a string`,
			`{"name":"none","arguments":null}`:                                                  "nothing",
			`{"name":"weather","arguments":{"days":"x","unit":"C","note":"maybe","at":"now"}}`: `arguments: missing "city" (accepted: city, days, unit, note, at); ` +
				`"days": expected an integer of 64 bits, got "x"; "note": expected true or false, got "maybe"; "at": expected a date-time as in RFC 3339, got "now"`,
			`{"name":"weather","arguments":{"x":"1","y":"2","city":"Bern","unit":"C"}}`: `arguments: unknown "x" (accepted: city, days, unit, note, at); unknown "y" (accepted: `,
		} {
			got, err := raw(t, session, mcp.MethodPromptsGet, params)
			if err != nil {
				got = message(err)
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", params, got, want)
			}
		}
		for prompt, err := range session.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if prompt.Name != "weather" {
				continue
			}
			want := []mcp.PromptArgument{
				{Name: "city", Description: "the city, or a part of it", Required: true}, {Name: "days", Description: "days to forecast"},
				{Name: "unit", Required: true}, {Name: "note"}, {Name: "at"},
			}
			if diff := cmp.Diff(want, prompt.Arguments); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
	})
}

type unit string

// TestPromptArgumentsKnownAtRunTime checks that a prompt can have arguments that no Go type declares.
func TestPromptArgumentsKnownAtRunTime(t *testing.T) {
	declared := []mcp.PromptArgument{{Name: "city", Title: "City", Description: "where", Required: true}, {Name: "day"}}
	s := newServer(nil)
	server.AddPrompt(s, server.Prompt{Name: "weather", Arguments: declared}, func(_ context.Context, _ *server.Request, in map[string]string) (string, error) {
		return fmt.Sprint(in), nil
	})
	server.AddPrompt(s, server.Prompt{Name: "none", Arguments: []mcp.PromptArgument{}}, func(_ context.Context, _ *server.Request, in map[string]string) (string, error) {
		return fmt.Sprint(in), nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "weather", Argument: "city"}, func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
		return []string{"Bern"}, nil
	})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		for params, want := range map[string]string{
			`{"name":"weather","arguments":{"city":"Bern"}}`:            `map[city:Bern]`,
			`{"name":"weather","arguments":{"city":"Bern","day":"1"}}`:  `map[city:Bern day:1]`,
			`{"name":"weather","arguments":{"city":"Bern","day":null}}`: `map[city:Bern]`,
			`{"name":"weather","arguments":{"city":null}}`:              `arguments: "city" must be a string`,
			`{"name":"weather","arguments":{"x":"1"}}`:                  `arguments: unknown "x" (accepted: city, day); missing "city" (accepted: city, day)`,
			`{"name":"weather"}`:                    `arguments: missing "city" (accepted: city, day)`,
			`{"name":"none"}`:                       `map[]`,
			`{"name":"none","arguments":{"x":"1"}}`: `arguments: unknown "x" (accepted: )`,
		} {
			got, err := raw(t, session, mcp.MethodPromptsGet, params)
			if err != nil {
				wantCode(t, err, jsonrpc.InvalidParams)
				got = message(err)
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", params, got, want)
			}
		}
		for prompt, err := range session.Prompts(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(declared, prompt.Arguments); prompt.Name == "weather" && diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
		if got, err := session.CompletePrompt(t.Context(), "weather", "city", "B", nil, nil); err != nil || !slices.Equal(got.Values, []string{"Bern"}) {
			t.Errorf("the argument is completed to %+v, %v", got, err)
		}
	})
	anyArguments := func(context.Context, *server.Request, map[string]string) (string, error) { return "", nil }
	for name, arguments := range map[string][]mcp.PromptArgument{"empty": {{}}, "twice": {{Name: "a"}, {Name: "a"}}} {
		if _, err := server.NewPrompt(server.Prompt{Name: "p", Arguments: arguments}, anyArguments); err == nil {
			t.Errorf("%s: the prompt is not refused", name)
		}
	}
	if _, err := server.NewPrompt(server.Prompt{Name: "p", Arguments: declared}, func(context.Context, *server.Request, reviewArgs) (string, error) { return "", nil }); err == nil {
		t.Error("a struct and Prompt.Arguments together are not refused")
	}
}

// TestInvalidDefaults checks that invalid defaults are rejected at registration.
func TestInvalidDefaults(t *testing.T) {
	_, choice := server.NewPrompt(server.Prompt{Name: "x"}, nothing[struct {
		Pace string `jsonschema:"enum=slow,enum=fast,default=steady"`
	}])
	_, size := server.NewPrompt(server.Prompt{Name: "x"}, nothing[struct {
		Days int8 `jsonschema:"default=1000"`
	}])
	for says, err := range map[string]error{`field Pace: the default: expected one of slow, fast, got "steady"`: choice, "field Days: the default: expected an integer of 8 bits": size} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want %s", err, says)
		}
	}
}

// TestFieldErrors checks the accepted forms of values, and the errors for others.
func TestFieldErrors(t *testing.T) {
	type words struct {
		B bool      `json:"b,omitempty"`
		N int       `json:"n,omitempty"`
		F float64   `json:"f,omitempty"`
		T time.Time `json:"t,omitzero"`
		L []string  `json:"l,omitempty" jsonschema:"enum=x,enum=y"`
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTemplate(s, server.Template{URITemplate: "w:all{?b,n,f,t,l*}"}, func(_ context.Context, _ *server.Request, in words) (string, error) {
			return fmt.Sprint(in.B, in.N, in.F, in.T.Year(), in.L), nil
		})
		session := connect(t, s, era)
		for query, want := range map[string]string{
			"b=1": "true", "b=true": "true", "b=YES": "true", "b=On": "true", "b=TRUE": "true",
			"b=0": "false", "b=false": "false", "b=no": "false", "b=OFF": "false",
			"n=-7": "-7", "n=007": " 7 ", "f=1.5e3": "1500", "f=.5": "0.5", "t=2026-07-28T00:00:00Z": "2026", "l=x&l=y": "[x y]",
		} {
			if got := contents(t, session, "w:all?"+query); !strings.Contains(got, want) {
				t.Errorf("%s gives %s, want %s", query, got, want)
			}
		}
		for query, name := range map[string]string{
			"b=": "b", "b=maybe": "b", "b=2": "b", "b=t": "b", "b=%20true": "b",
			"n=": "n", "n=%207": "n", "n=1_000": "n", "n=0x10": "n", "n=1.0": "n", "n=9223372036854775808": "n",
			"f=": "f", "f=1_000.5": "f", "f=NaN": "f", "f=Inf": "f", "f=-infinity": "f", "f=1e400": "f", "f=0x1p4": "f",
			"t=today": "t", "l=z": "l", "l=x&l=": "l",
		} {
			_, err := session.ReadResource(t.Context(), "w:all?"+query, nil)
			if wantCode(t, err, jsonrpc.InvalidParams); !strings.Contains(message(err), fmt.Sprintf("%q: ", name)) {
				t.Errorf("%s: the error is %v, want it to name %s", query, err, name)
			}
		}
	})
}
