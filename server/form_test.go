package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A person fills in every form in the same way, and remembers what was asked.
type person struct {
	content string
	forms   []string
}

func (p *person) fill(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	p.forms = append(p.forms, string(params.RequestedSchema))
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(p.content)}, nil
}

// asksFor adds a tool that asks for a T, and says what it got.
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

// TestForms: what a person is asked, and what becomes of the answer. MCP 2025-11-25,
// client/elicitation, "Requested Schema".
func TestForms(t *testing.T) {
	const value = `{"type":"object","properties":{"value":%s},"required":["value"]}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		asksFor[struct{}](s, "approval")
		asksFor[registration](s, "struct")
		asksFor[*sure](s, "pointer")
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
			{"string", fmt.Sprintf(value, `{"type":"string"}`), `{"value":"x"}`, "x"},
			{"bool", fmt.Sprintf(value, `{"type":"boolean"}`), `{"value":true}`, "true"},
			{"int", fmt.Sprintf(value, `{"type":"integer"}`), `{"value":7.0}`, "7"},
			{"number", fmt.Sprintf(value, `{"type":"number"}`), `{"value":1.5}`, "1.5"},
			{"choice", fmt.Sprintf(value, `{"type":"string","enum":["rye","rice","wheat"]}`), `{"value":"rye"}`, "rye"},
			{"choices", fmt.Sprintf(value, `{"type":"array","items":{"type":"string","enum":["rye","rice","wheat"]}}`), `{"value":["rye","rice"]}`, "[rye rice]"},
		} {
			asked := &person{content: test.content}
			result := call(t, connectWith(t, s, &client.Options{Era: era, Elicit: asked.fill}), test.tool, `{}`)
			if texts(result) != test.says || result.IsError {
				t.Errorf("%s: the tool says %q, want %q", test.tool, texts(result), test.says)
			}
			if !slices.Equal(asked.forms, []string{test.form}) {
				t.Errorf("%s: the person is asked\n%q, want\n%s", test.tool, asked.forms, test.form)
			}
		}
	})
}

// TestFormsThatCannotBeAsked fail before anybody is asked.
func TestFormsThatCannotBeAsked(t *testing.T) {
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
			if !result.IsError || !strings.HasPrefix(texts(result), "a form of ") {
				t.Errorf("%s: the tool says %q", tool, texts(result))
			}
		}
		if len(asked.forms) > 0 {
			t.Errorf("the person is asked %q", asked.forms)
		}
	})
}

// TestAnswersAreChecked: whatever a client sends, a function gets what it asked for.
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
		session := connectWith(t, s, &client.Options{Era: era, Elicit: asked.fill})
		for _, tool := range []string{"typed", "form"} {
			asked.content = `{"name":"Ada","age":36,"grain":"rye"}`
			if result := call(t, session, tool, `{}`); result.IsError || !strings.Contains(texts(result), "Ada") {
				t.Errorf("%s says %q", tool, texts(result))
			}
			ran = 0
			for _, content := range []string{
				`{}`, `{"name":7}`, `{"name":"A"}`, `{"name":"Ada","age":"36"}`, `{"name":"Ada","age":-1}`, `{"name":"Ada","age":1.5}`,
				`{"name":"Ada","grain":"stone"}`, `{"name":"Ada","password":"x"}`, `{"name":null}`,
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

// TestVisits: a person can agree to visit a page, decline and go away, and each is
// something else. MCP 2025-11-25, client/elicitation.
func TestVisits(t *testing.T) {
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
			if result := call(t, session, "pay", `{}`); texts(result) != want || result.IsError != (action != mcp.ElicitAccept) {
				t.Errorf("%s: the tool says %q", action, texts(result))
			}
		}
		// Who only fills in forms is not sent anywhere.
		_, err := connectWith(t, s, accepting(era)).CallTool(t.Context(), "pay", nil, nil)
		if !strings.Contains(message(err), `{"elicitation":{"url":{}}}`) {
			t.Errorf("a client without visits gets %v", err)
		}
	})
}
