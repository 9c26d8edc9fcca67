package server_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A person fills in every form in the same way, and records the questions.
type person struct {
	content string
	forms   []string
}

func (p *person) fill(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	p.forms = append(p.forms, string(params.RequestedSchema))
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(p.content)}, nil
}

// asksFor adds a tool that asks for a T and returns the answer.
func asksFor[T any](s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		answer, err := server.Elicit[T](r, "q", "?")
		return fmt.Sprintf("%+v", answer), err
	})
}

type registration struct {
	Name  string   `json:"name" jsonschema:"minLength=2" jsonschema_description:"as in the passport"`
	Age   int      `json:"age" jsonschema:"minimum=0,default=30"`
	Score float64  `json:"score,omitempty"`
	News  *bool    `json:"news"`
	Mail  string   `json:"mail" jsonschema:"format=email"`
	Grain grain    `json:"grain"`
	Picks []string `json:"picks" jsonschema:"enum=a,enum=b,maxItems=2"`
}

// TestForms checks the schema of questions and the decoding of answers. MCP 2025-11-25,
// client/elicitation, "Requested Schema".
func TestForms(t *testing.T) {
	const value = `{"type":"object","properties":{"value":%s},"required":["value"]}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		asksFor[struct{}](s, "approval")
		asksFor[registration](s, "struct")
		asksFor[*answersFor](s, "pointer")
		asksFor[string](s, "string")
		asksFor[bool](s, "bool")
		asksFor[int](s, "int")
		asksFor[float64](s, "number")
		asksFor[grain](s, "choice")
		asksFor[[]grain](s, "choices")
		for _, test := range []struct{ tool, form, content, says string }{
			{"approval", `{"type":"object","properties":{}}`, `{}`, "{}"},
			{"struct", `{"type":"object","properties":{"name":{"type":"string","description":"as in the passport","minLength":2},` +
				`"age":{"type":"integer","default":30,"minimum":0},"score":{"type":"number"},"news":{"type":"boolean"},` +
				`"mail":{"type":"string","format":"email"},"grain":{"type":"string","enum":["rye","rice","wheat"]},` +
				`"picks":{"type":"array","maxItems":2,"items":{"type":"string","enum":["a","b"]}}},"required":["name","mail","grain","picks"]}`,
				`{"name":"Ada","mail":"a@b.c","grain":"rye","picks":["b"]}`, "{Name:Ada Age:30 Score:0 News:<nil> Mail:a@b.c Grain:rye Picks:[b]}"},
			{"pointer", `{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}`, `{"sure":true}`, "&{Sure:true}"},
			{"string", fmt.Sprintf(value, `{"type":"string"}`), `{"value":"x","_other":1}`, "x"},
			{"bool", fmt.Sprintf(value, `{"type":"boolean"}`), `{"value":true}`, "true"},
			{"int", fmt.Sprintf(value, `{"type":"integer"}`), `{"value":7.0}`, "7"},
			{"number", fmt.Sprintf(value, `{"type":"number"}`), `{"value":1.5}`, "1.5"},
			{"choice", fmt.Sprintf(value, `{"type":"string","enum":["rye","rice","wheat"]}`), `{"value":"rye"}`, "rye"},
			{"choices", fmt.Sprintf(value, `{"type":"array","items":{"type":"string","enum":["rye","rice","wheat"]}}`), `{"value":["rye","rice"]}`, "[rye rice]"},
		} {
			asked := &person{content: test.content}
			result := call(t, connectWith(t, s, &client.Options{Era: era, Elicit: asked.fill}), test.tool, `{}`)
			if textOf(result) != test.says || result.IsError {
				t.Errorf("%s: the tool says %q, want %q", test.tool, textOf(result), test.says)
			}
			if !slices.Equal(asked.forms, []string{test.form}) {
				t.Errorf("%s: the person is asked\n%q, want\n%s", test.tool, asked.forms, test.form)
			}
		}
	})
}

// TestInvalidForms checks that invalid forms fail without a question.
func TestInvalidForms(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		asksFor[struct{ P point }](s, "nested")
		asksFor[struct{ P []point }](s, "list_of_structs")
		asksFor[struct{ N []int }](s, "list_of_numbers")
		asksFor[struct{ S []string }](s, "list_without_choice")
		asksFor[[]string](s, "alone")
		asksFor[map[string]string](s, "map")
		asksFor[struct{ A any }](s, "anything")
		asksFor[struct{ C chan int }](s, "no_JSON")
		asked := &person{content: `{}`}
		session := connectWith(t, s, &client.Options{Era: era, Elicit: asked.fill})
		for _, tool := range toolNames(t, session) {
			result := call(t, session, tool, `{}`)
			if !result.IsError || !strings.HasPrefix(textOf(result), "a form of ") {
				t.Errorf("%s: the tool says %q", tool, textOf(result))
			}
		}
		if len(asked.forms) > 0 {
			t.Errorf("the person is asked %q", asked.forms)
		}
	})
}

// TestAnswersAreChecked checks that a function gets only answers that fit its question.
func TestAnswersAreChecked(t *testing.T) {
	form := &mcp.ElicitSchema{Fields: []mcp.ElicitField{
		{Name: "name", Required: true, Schema: &mcp.StringSchema{MinLength: new(2)}},
		{Name: "age", Schema: &mcp.NumberSchema{Integer: true, Minimum: new(0.0)}},
		{Name: "grain", Schema: &mcp.EnumSchema{Options: []mcp.EnumOption{{Value: "rye"}, {Value: "rice"}}}},
	}}
	type fields struct {
		Name  string `json:"name" jsonschema:"minLength=2"`
		Age   int    `json:"age,omitempty" jsonschema:"minimum=0"`
		Grain grain  `json:"grain,omitempty"`
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		ran := 0
		server.AddTool(s, server.Tool{Name: "typed"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			answer, err := server.Elicit[fields](r, "q", "?")
			if err == nil {
				ran++
			}
			return answer.Name, err
		})
		server.AddTool(s, server.Tool{Name: "form"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			answer, err := server.ElicitForm(r, "q", "?", form)
			if err == nil {
				ran++
			}
			return string(answer), err
		})
		asked := &person{}
		session := connectWith(t, s, &client.Options{Era: era, Elicit: asked.fill, Limits: client.Limits{QuestionBurst: -1}})
		for _, tool := range []string{"typed", "form"} {
			for _, content := range []string{
				`{"name":"Ada","age":36,"grain":"rye"}`, `{"name":"Ada","age":null,"grain":null}`, `{"name":"Ada","_note":{"by":"client"}}`,
			} {
				asked.content = content
				if result := call(t, session, tool, `{}`); result.IsError || !strings.Contains(textOf(result), "Ada") {
					t.Errorf("%s: %s says %q", content, tool, textOf(result))
				}
			}
			ran = 0
			for _, content := range []string{
				`{}`, `{"name":7}`, `{"name":"A"}`, `{"name":"Ada","age":"36"}`, `{"name":"Ada","age":-1}`, `{"name":"Ada","age":1.5}`,
				`{"name":"Ada","grain":"stone"}`, `{"name":null}`,
			} {
				asked.content = content
				_, err := session.CallTool(t.Context(), tool, nil, nil)
				if wantCode(t, err, jsonrpc.InvalidParams); ran > 0 {
					t.Fatalf("%s goes on with %s", tool, content)
				}
			}
		}
	})
}

// TestElicitURL checks that accepting, declining and cancelling have different results. MCP
// 2025-11-25, client/elicitation.
func TestElicitURL(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "pay"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			return "agreed", server.ElicitURL(r, "pay", "Please pay.", "https://bakery.example/pay?order=7")
		})
		for action, want := range map[mcp.ElicitAction]string{
			mcp.ElicitAccept:  "agreed",
			mcp.ElicitDecline: `the user chose to decline the question "pay"`,
			mcp.ElicitCancel:  `the user chose to cancel the question "pay"`,
		} {
			session := connectWith(t, s, &client.Options{Era: era, ElicitURLs: true, Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				if params.Mode != mcp.ElicitURL || params.URL != "https://bakery.example/pay?order=7" || params.RequestedSchema != nil || params.Message != "Please pay." {
					t.Errorf("the person is asked %+v", params)
				}
				return &mcp.ElicitResult{Action: action}, nil
			}})
			if result := call(t, session, "pay", `{}`); textOf(result) != want || result.IsError != (action != mcp.ElicitAccept) {
				t.Errorf("%s: the tool says %q", action, textOf(result))
			}
		}
		// Who only fills in forms is not sent anywhere.
		_, err := connectWith(t, s, accepting(era)).CallTool(t.Context(), "pay", nil, nil)
		if !strings.Contains(message(err), `{"elicitation":{"url":{}}}`) {
			t.Errorf("a client without visits gets %v", err)
		}
	})
}

func accepting(era client.Era) *client.Options {
	return &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"sure":true}`)}, nil
	}}
}

// TestOnce checks that a result is kept in all runs of one call, and in no other call.
func TestOnce(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var runs, made, failed atomic.Int64
		s := newServer(nil)
		type receipt struct {
			Number int64  `json:"number"`
			Note   string `json:"note"`
		}
		server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			runs.Add(1)
			_, err := server.Once(r, "fails", func() (int, error) { return 0, errors.New(fmt.Sprint("try ", failed.Add(1))) })
			if err == nil {
				return "", errors.New("an error was kept")
			}
			first, err := server.Once(r, "make", func() (receipt, error) { return receipt{9007199254740992 + made.Add(1), "<b>"}, nil })
			if err != nil {
				return "", err
			}
			if _, err := server.Elicit[answersFor](r, "sure", "Sure?"); err != nil {
				return "", err
			}
			if _, err := server.Elicit[answersFor](r, "really", "Really?"); err != nil {
				return "", err
			}
			again, err := server.Once(r, "make", func() (receipt, error) { return receipt{}, errors.New("made twice") })
			return fmt.Sprint(first == again, " ", first.Number, first.Note), err
		})
		session := connectWith(t, s, accepting(era))
		for i, want := range []string{"true 9007199254740993<b>", "true 9007199254740994<b>"} {
			if got := textOf(call(t, session, "order", `{}`)); got != want {
				t.Errorf("the tool says %q, want %q", got, want)
			}
			if n := int64(i + 1); made.Load() != n || runs.Load() != 3*n || failed.Load() != 3*n {
				t.Errorf("after call %d: made %d, run %d and failed %d times", n, made.Load(), runs.Load(), failed.Load())
			}
		}
	})
}

// Each run of a call has its own values: the values of [mcp.Call.Set], and the error of
// [mcp.Call.FreezeArguments], which an outer middleware must not meet that changes the arguments on each
// run.
func TestValuesOfRepeatedRuns(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			type key struct{}
			runs := 0
			outer := func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if call.Method() != mcp.MethodToolsCall {
						return next(ctx, call)
					}
					if earlier := call.Get(key{}); earlier != nil {
						t.Errorf("run %d has the value %v of an earlier one", runs+1, earlier)
					}
					runs++
					call.Set(key{}, runs)
					changed, err := call.WithParams(jsonRaw(`{"name":"ask","arguments":{"tenant":"acme"}}`))
					if err != nil {
						return nil, err
					}
					return next(ctx, changed)
				}
			}
			freeze := func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					call.FreezeArguments(errors.New("the arguments are frozen"))
					return next(ctx, call)
				}
			}
			s := newServer(&server.Options{Middleware: []mcp.Middleware{outer}, CallMiddleware: []mcp.Middleware{freeze}})
			server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, in struct {
				Tenant string `json:"tenant,omitempty"`
			}) (string, error) {
				for _, question := range []string{"one", "two"} {
					if _, err := server.Elicit[answersFor](r, question, question); err != nil {
						return "", err
					}
				}
				return in.Tenant, nil
			})
			session := connectWith(t, s, accepting(era))
			if result := call(t, session, "ask", `{}`); result.IsError || runs != 3 {
				t.Errorf("the result is %q after %d runs, want 3", textOf(result), runs)
			}
		})
	}
}

// TestOnceKeys checks that keys of questions and of Once are independent.
func TestOnceKeys(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "both"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			kept, err := server.Once(r, "x", func() (string, error) { return "kept", nil })
			if err != nil {
				return "", err
			}
			answer, err := server.Elicit[answersFor](r, "x", "Sure?")
			return fmt.Sprint(kept, answer.Sure), err
		})
		if got := textOf(call(t, connectWith(t, s, accepting(era)), "both", `{}`)); got != "kepttrue" {
			t.Errorf("the tool says %q", got)
		}
	})
}

// TestDeclined checks the error of a declined question.
func TestDeclined(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, action := range []mcp.ElicitAction{mcp.ElicitDecline, mcp.ElicitCancel} {
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				_, err := server.Elicit[answersFor](r, "sure", "Sure?")
				if declined, ok := errors.AsType[*server.DeclinedError](err); ok {
					return fmt.Sprint(declined.Key, " ", declined.Action), nil
				}
				return "", err
			})
			session := connectWith(t, s, &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: action}, nil
			}})
			if got, want := textOf(call(t, session, "ask", `{}`)), fmt.Sprint("sure ", action); got != want {
				t.Errorf("the tool says %q, want %q", got, want)
			}
		}
	})
}

type recipe struct {
	Name    string `json:"name" jsonschema:"minLength=1"`
	Minutes int    `json:"minutes" jsonschema:"minimum=1"`
}

// newSampler is a server with tools that ask a model.
func newSampler() *server.Server {
	s := newServer(&server.Options{Logger: discardLogger()})
	prompt := func(text string) *mcp.CreateMessageParams {
		return &mcp.CreateMessageParams{MaxTokens: 100, SystemPrompt: "You bake.", Messages: []mcp.SamplingMessage{
			{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text(text)}},
		}}
	}
	server.AddTool(s, server.Tool{Name: "invent"}, func(_ context.Context, r *server.Request, _ struct{}) (recipe, error) {
		return server.SampleAs[recipe](r, "recipe", prompt("Invent a recipe."))
	})
	server.AddTool(s, server.Tool{Name: "look_up"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		params := prompt("How long does rye take?")
		params.Tools = []mcp.Tool{{Name: "minutes", InputSchema: jsonRaw(`{"type":"object"}`)}}
		answer, err := server.SampleLoop(ctx, r, "loop", params, func(_ context.Context, use *mcp.ToolUseContent) (mcp.ContentList, error) {
			if use.Name != "minutes" {
				return nil, errors.New("there is no such tool")
			}
			return mcp.ContentList{mcp.Text("60")}, nil
		})
		if err != nil {
			return "", err
		}
		return answer.Content[0].(*mcp.TextContent).Text, nil
	})
	return s
}

// A model gives one answer after another, and records the questions.
type model struct {
	says  []mcp.SamplingContent
	asked []*mcp.CreateMessageParams
}

func (m *model) sample(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	m.asked = append(m.asked, params)
	if len(m.says) == 0 {
		return nil, errors.New("the model has nothing more to say")
	}
	said := m.says[0]
	if len(m.says) > 1 {
		m.says = m.says[1:]
	}
	return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: said}, nil
}

func sayings(texts ...string) *model {
	m := &model{}
	for _, text := range texts {
		m.says = append(m.says, mcp.SamplingContent{mcp.Text(text)})
	}
	return m
}

func TestSampleAs(t *testing.T) {
	const good = `{"name":"rye","minutes":60}`
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, test := range []struct {
			name  string
			model *model
			asked int
			want  string // "" when it fails
		}{
			{"plain", sayings(good), 1, good},
			{"fenced", sayings("```json\n" + good + "\n```"), 1, good},
			{"asked again", sayings("I would say rye.", `{"name":"rye","minutes":0}`, good), 3, good},
			{"never", sayings("no"), 3, ""},
		} {
			session := connectWith(t, newSampler(), &client.Options{Era: era, Sample: test.model.sample})
			result := call(t, session, "invent", `{}`)
			if got := textOf(result); test.want != "" && got != test.want || test.want == "" && !result.IsError {
				t.Errorf("%s: got %s", test.name, got)
			}
			if len(test.model.asked) != test.asked {
				t.Errorf("%s: the model was asked %d times, want %d", test.name, len(test.model.asked), test.asked)
			}
			first := test.model.asked[0]
			if !strings.HasPrefix(first.SystemPrompt, "You bake.") || !strings.Contains(first.SystemPrompt, `"minutes"`) {
				t.Errorf("%s: the system prompt is %s", test.name, first.SystemPrompt)
			}
			for i, params := range test.model.asked {
				if len(params.Messages) != 1+2*i {
					t.Errorf("%s: attempt %d has %d messages", test.name, i+1, len(params.Messages))
				}
			}
		}
	})
}

// TestSampleHasADefaultOfTokens checks what a model is asked if MaxTokens is not set, by each function that asks a model.
func TestSampleHasADefaultOfTokens(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "ask"}, func(ctx context.Context, r *server.Request, in struct{ Tokens int }) (string, error) {
		prompt := mcp.SamplingPrompt("Say 1.")
		prompt.MaxTokens = in.Tokens
		one, err := server.Sample(r, "one", prompt)
		if err != nil {
			return "", err
		}
		two, err := server.SampleAs[int](r, "two", prompt)
		if err != nil {
			return "", err
		}
		three, err := server.SampleLoop(ctx, r, "three", prompt, nil)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(one.Text(), two, three.Text(), prompt.MaxTokens), nil
	})
	eachEra(t, func(t *testing.T, era client.Era) {
		for tokens, want := range map[int]int{0: 1024, 7: 7} {
			m := sayings("1")
			session := connectWith(t, s, &client.Options{Era: era, Sample: m.sample})
			if got, want := textOf(call(t, session, "ask", fmt.Sprintf(`{"Tokens":%d}`, tokens))), fmt.Sprint("1", 1, "1", tokens); got != want {
				t.Errorf("%d tokens: the tool says %q, want %q", tokens, got, want)
			}
			if len(m.asked) != 3 {
				t.Errorf("%d tokens: the model was asked %d times", tokens, len(m.asked))
			}
			for _, params := range m.asked {
				if params.MaxTokens != want || params.Messages[0].Content[0].(*mcp.TextContent).Text != "Say 1." {
					t.Errorf("%d tokens: the model was asked %+v", tokens, params)
				}
			}
		}
	})
}

func TestSampleLoopRunsTools(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		m := &model{says: []mcp.SamplingContent{
			{&mcp.ToolUseContent{ID: "1", Name: "minutes"}, &mcp.ToolUseContent{ID: "2", Name: "nonsense"}},
			{mcp.Text("an hour")},
		}}
		session := connectWith(t, newSampler(), &client.Options{Era: era, Sample: m.sample, SampleTools: true})
		if got := textOf(call(t, session, "look_up", `{}`)); got != "an hour" {
			t.Errorf("got %s", got)
		}
		last := m.asked[len(m.asked)-1].Messages
		if err := mcp.ValidateSampling(last); err != nil || len(last) != 3 {
			t.Fatalf("the model was shown %d messages: %v", len(last), err)
		}
		results := slices.Collect(func(yield func(*mcp.ToolResultContent) bool) {
			for _, content := range last[2].Content {
				if result, ok := content.(*mcp.ToolResultContent); ok && !yield(result) {
					return
				}
			}
		})
		if len(results) != 2 || results[0].IsError || !results[1].IsError {
			t.Errorf("the tools said %+v", results)
		}
	})
}

// TestSampleLoopEnds checks the limit for a model that always calls tools.
func TestSampleLoopEnds(t *testing.T) {
	m := &model{says: []mcp.SamplingContent{{&mcp.ToolUseContent{ID: "1", Name: "minutes"}}}}
	session := connectWith(t, newSampler(), &client.Options{Era: client.Legacy, Sample: m.sample, SampleTools: true})
	result, err := session.CallTool(t.Context(), "look_up", nil, nil)
	if err == nil && !result.IsError {
		t.Errorf("it ended with %s", textOf(result))
	}
	if len(m.asked) > 11 {
		t.Errorf("the model was asked %d times", len(m.asked))
	}
}

// TestSampleParams checks that only the set parameters are sent.
func TestSampleParams(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		zero := 0.0
		all := &mcp.CreateMessageParams{
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("a"), mcp.Text("b")}}},
			MaxTokens: 7, SystemPrompt: "s", IncludeContext: mcp.IncludeThisServer, Temperature: &zero, StopSequences: []string{"x"},
			ModelPreferences: &mcp.ModelPreferences{CostPriority: &zero}, Metadata: jsonRaw(`{"k":1.0}`),
		}
		few := &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("a")}}}, MaxTokens: 7}
		for want, params := range map[string]*mcp.CreateMessageParams{
			`{"messages":[{"role":"user","content":{"type":"text","text":"a"}}],"maxTokens":7}`: few,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"modelPreferences":{"costPriority":0},` +
				`"systemPrompt":"s","includeContext":"thisServer","temperature":0,"maxTokens":7,"stopSequences":["x"],"metadata":{"k":1.0}}`: all,
		} {
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				answer, err := server.Sample(r, "q", params)
				if err != nil {
					return "", err
				}
				return answer.Model + " " + string(answer.StopReason), nil
			})
			session := connectWith(t, s, &client.Options{Era: era, Sample: func(_ context.Context, got *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				if encoded, err := got.AppendJSON(nil); err != nil || string(encoded) != want {
					t.Errorf("the client is asked\n%s, want\n%s", encoded, want)
				}
				return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "poet", Content: mcp.SamplingContent{mcp.Text("x")}, StopReason: mcp.StopEndTurn}, nil
			}})
			if got := textOf(call(t, session, "ask", `{}`)); got != "poet endTurn" {
				t.Errorf("the tool says %q", got)
			}
		}
	})
}

// TestSamplingNeedsItsCapability checks that a client gets only questions and tools that it
// supports.
func TestSamplingNeedsItsCapability(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		m := sayings("never asked")
		for _, test := range []struct {
			opts client.Options
			tool string
			says string
		}{
			{client.Options{}, "invent", `{"sampling":{}}`},
			{client.Options{Sample: m.sample}, "look_up", `{"sampling":{"tools":{}}}`},
		} {
			test.opts.Era = era
			_, err := connectWith(t, newSampler(), &test.opts).CallTool(t.Context(), test.tool, nil, nil)
			if !strings.Contains(message(err), test.says) || len(m.asked) > 0 {
				t.Errorf("%s: the error is %v after %d questions, want %s", test.tool, err, len(m.asked), test.says)
			}
		}
	})
}

// TestUnasked checks the warning for a function that opens a question and does not return its error.
func TestUnasked(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for name, end := range map[string]func(first, second error) error{
			"returned":     func(first, second error) error { return errors.Join(first, second) },
			"one of them":  func(first, second error) error { return fmt.Errorf("asking: %w", cmp.Or(second, first)) },
			"swallowed":    func(error, error) error { return nil },
			"without type": func(first, _ error) error { return fmt.Errorf("asking: %v", first) },
			"with another": func(first, second error) error { return errors.Join(first, second, errors.New("no")) },
		} {
			log.Reset()
			fn := func(r *server.Request) error {
				_, first := server.Elicit[int](r, "count", "How many?")
				_, second := server.Elicit[bool](r, "sure", "Sure?")
				if first == nil && second == nil {
					return nil
				}
				return end(first, second)
			}
			if err := s.Replace(toolOf(t, "ask", fn)); err != nil {
				t.Fatal(err)
			}
			session := connectInMemory(t, s, &client.Options{Era: era, Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				value := "1"
				if p.Message == "Sure?" {
					value = "true"
				}
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"value":` + value + `}`)}, nil
			}})
			call(t, session, "ask", `{}`)
			const warning = `level=WARN msg="a question was not asked: the function must return the error of Elicit, Sample or Roots" questions="[count sure]" kind=tool name=ask`
			if asked := name == "returned" || name == "one of them"; strings.Contains(log.String(), warning) == asked || asked && log.Len() > 0 {
				t.Errorf("%s: the log is %q", name, log.String())
			}
		}
	})
}

// toolOf returns a tool without arguments.
func toolOf(t *testing.T, name string, fn func(r *server.Request) error) *server.Entry {
	t.Helper()
	e, err := server.NewTool(server.Tool{Name: name}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) { return "", fn(r) })
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestSampleRefused checks that the function gets the client's error.
func TestSampleRefused(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		_, err := server.Sample(r, "q", &mcp.CreateMessageParams{MaxTokens: 1})
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return "refused: " + refused.Message, nil
		}
		return "", err
	})
	session := connectWith(t, s, &client.Options{Era: client.Legacy, Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return nil, &jsonrpc.Error{Code: mcp.CodeUserRejected, Message: "not today"}
	}})
	if got := textOf(call(t, session, "ask", `{}`)); got != "refused: not today" {
		t.Errorf("the tool says %q", got)
	}
}

// TestSamplingToolsNeedCapability checks that a client without sampling.tools is asked only without
// tools. MCP 2025-11-25, client/sampling.
func TestSamplingToolsNeedCapability(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		says := func(text string) *model {
			return &model{says: []mcp.SamplingContent{{mcp.Text(text)}}}
		}
		plain, able := says(`{"name":"rye","minutes":60}`), says("60 minutes")
		session := connectWith(t, newSampler(), &client.Options{Era: era, Sample: plain.sample})
		if got := textOf(call(t, session, "invent", `{}`)); got != `{"name":"rye","minutes":60}` {
			t.Errorf("without tools the model is asked, and the tool says %q", got)
		}
		plain.asked = nil
		_, err := session.CallTool(t.Context(), "look_up", nil, nil)
		code := mcp.CodeMissingClientCapability
		if era == client.Legacy {
			code = jsonrpc.InvalidRequest
		}
		if wantCode(t, err, code); !strings.Contains(message(err), `{"sampling":{"tools":{}}}`) || len(plain.asked) > 0 {
			t.Errorf("the model was asked %d times, and the error is %v", len(plain.asked), err)
		}
		session = connectWith(t, newSampler(), &client.Options{Era: era, Sample: able.sample, SampleTools: true})
		if got := textOf(call(t, session, "look_up", `{}`)); got != "60 minutes" {
			t.Errorf("with tools declared the tool says %q", got)
		}
	})
}
