package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type recipe struct {
	Name    string `json:"name" jsonschema:"minLength=1"`
	Minutes int    `json:"minutes" jsonschema:"minimum=1"`
}

// newSampler has tools that ask a model.
func newSampler() *server.Server {
	s := newServer(&server.Options{Logger: quiet()})
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

// A model says one thing after the other, and remembers what it was asked.
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
			if got := texts(result); test.want != "" && got != test.want || test.want == "" && !result.IsError {
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

func TestSampleLoopRunsTools(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		m := &model{says: []mcp.SamplingContent{
			{&mcp.ToolUseContent{ID: "1", Name: "minutes"}, &mcp.ToolUseContent{ID: "2", Name: "nonsense"}},
			{mcp.Text("an hour")},
		}}
		session := connectWith(t, newSampler(), &client.Options{Era: era, Sample: m.sample, SampleTools: true})
		if got := texts(call(t, session, "look_up", `{}`)); got != "an hour" {
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

// A model that goes on for ever is stopped.
func TestSampleLoopEnds(t *testing.T) {
	m := &model{says: []mcp.SamplingContent{{&mcp.ToolUseContent{ID: "1", Name: "minutes"}}}}
	session := connectWith(t, newSampler(), &client.Options{Era: client.Legacy, Sample: m.sample, SampleTools: true})
	result, err := session.CallTool(t.Context(), "look_up", nil, nil)
	if err == nil && !result.IsError {
		t.Errorf("it ended with %s", texts(result))
	}
	if len(m.asked) > 11 {
		t.Errorf("the model was asked %d times", len(m.asked))
	}
}

// TestSampleSaysWhatIsSet, and nothing else.
func TestSampleSaysWhatIsSet(t *testing.T) {
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
			if got := texts(call(t, session, "ask", `{}`)); got != "poet endTurn" {
				t.Errorf("the tool says %q", got)
			}
		}
	})
}

// TestSamplingNeedsItsCapability: nobody's model is asked that cannot be, nor offered
// tools that it may not use.
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

// TestSampleRefused: what a client answers instead is the function's to know.
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
	if got := texts(call(t, session, "ask", `{}`)); got != "refused: not today" {
		t.Errorf("the tool says %q", got)
	}
}
