package era_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type cityIn struct {
	City string `json:"city"`
}

// newAskingServer returns a server with tools that ask their caller.
func newAskingServer(opts *server.Options) *server.Server {
	if opts == nil {
		opts = &server.Options{}
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "asker", Version: "1"}, opts)
	server.AddTool(s, server.Tool{Name: "elicit"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		in, err := server.Elicit[cityIn](r, "where", "Where to?")
		return "to " + in.City, err
	})
	server.AddTool(s, server.Tool{Name: "visit"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return "visited", server.ElicitURL(r, "page", "Please sign in.", "https://asker.example/in")
	})
	sample := func(r *server.Request, key string, choice *mcp.ToolChoice) (string, error) {
		result, err := server.Sample(r, key, &mcp.CreateMessageParams{
			Messages:   []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text(key)}}},
			MaxTokens:  10,
			ToolChoice: choice,
		})
		if err != nil {
			return "", err
		}
		return result.Model, nil
	}
	server.AddTool(s, server.Tool{Name: "three"}, func(_ context.Context, r *server.Request, _ struct {
		N int `json:"n,omitempty"`
	}) (string, error) {
		first, err := sample(r, "first", nil)
		if err != nil {
			return "", err
		}
		roots, err := server.Roots(r, "roots")
		if err != nil {
			return "", err
		}
		third, err := sample(r, "third", nil)
		if err != nil {
			return "", fmt.Errorf("the third question: %w", err)
		}
		return fmt.Sprintf("%s, %s, %s", first, roots[0].URI, third), nil
	})
	server.AddTool(s, server.Tool{Name: "choose"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return sample(r, "choice", &mcp.ToolChoice{Mode: mcp.ToolChoiceNone})
	})
	server.AddTool(s, server.Tool{Name: "twin"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		_, err := server.Roots(r, "roots")
		return "twin", err
	})
	server.AddTool(s, server.Tool{Name: "endless"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := 0; ; i++ {
			if _, err := server.Roots(r, fmt.Sprint("roots ", i)); err != nil {
				return "", err
			}
		}
	})
	server.AddPrompt(s, server.Prompt{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		roots, err := server.Roots(r, "roots")
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	server.AddPrompt(s, server.Prompt{Name: "twin"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		_, err := server.Roots(r, "roots")
		return "twin", err
	})
	server.AddResource(s, server.Resource{URI: "app:ask"}, func(_ context.Context, r *server.Request) (string, error) {
		roots, err := server.Roots(r, "roots")
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "ask", Argument: "x"}, func(_ context.Context, r *server.Request, _ string, _ map[string]string) ([]string, error) {
		_, err := server.Roots(r, "roots")
		return nil, err
	})
	return s
}

// answers returns the answer of the peer to any question.
func answers(method, params string) string {
	switch method {
	case mcp.MethodElicit:
		return `{"action":"accept","content":{"city":"Bern"}}`
	case mcp.MethodCreateMessage:
		return `{"role":"assistant","content":{"type":"text","text":"x"},"model":` + eratest.At(params, "messages", "0", "content", "text") + `}`
	case mcp.MethodRootsList:
		return `{"roots":[{"uri":"file:///home"}]}`
	}
	return `{}`
}

// converse makes a call and answers its questions. It returns the last frame and the methods of
// the questions.
func converse(p *eratest.Peer, method, params string, answer func(method, params string) string) (last string, asked []string) {
	p.T.Helper()
	id := p.Start(method, params)
	for range 20 {
		frame := p.Next()
		switch answered := eratest.At(frame, "id") == id && eratest.At(frame, "method") == ""; {
		case answered && eratest.At(frame, "result", "resultType") == `"input_required"`:
			asked = append(asked, questions(frame)...)
			id = p.Start(method, retried(params, frame, answer))
		case answered:
			return frame, asked
		default:
			asked = append(asked, eratest.Text(frame, "method"))
			p.Send(`{"jsonrpc":"2.0","id":` + eratest.At(frame, "id") + `,"result":` + answer(eratest.Text(frame, "method"), eratest.At(frame, "params")) + `}`)
		}
	}
	p.T.Fatalf("%s does not end", method)
	return "", nil
}

// questions returns the methods of the questions of a round.
func questions(round string) []string {
	var methods []string
	object, _ := jsonscan.ReadObject([]byte(eratest.At(round, "result", "inputRequests")))
	for m := range object.All() {
		methods = append(methods, eratest.Text(string(m.Value), "method"))
	}
	return methods
}

// retried returns the params of a call with the answers to a round.
func retried(params, round string, answer func(method, params string) string) string {
	object, _ := jsonscan.ReadObject([]byte(eratest.At(round, "result", "inputRequests")))
	var said []string
	for m := range object.All() {
		said = append(said, string(m.Key)+":"+answer(eratest.Text(string(m.Value), "method"), eratest.At(string(m.Value), "params")))
	}
	with, err := jsonscan.Splice(nil, []byte(params),
		jsonscan.Edit{Name: "inputResponses", Value: []byte("{" + strings.Join(said, ",") + "}")},
		jsonscan.Edit{Name: "requestState", Value: []byte(eratest.At(round, "result", "requestState"))})
	if err != nil {
		panic(err)
	}
	return string(with)
}

// testQuestions checks that a question is a result in the modern era and a request in the legacy
// era.
func testQuestions(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newAskingServer(nil), version, eratest.Askable)
	for _, test := range []struct {
		method, params, question, answer string
		since                            mcp.Version
	}{
		{mcp.MethodToolsCall, `{"name":"elicit"}`, mcp.MethodElicit, "to Bern", mcp.Version20250618},
		{mcp.MethodToolsCall, `{"name":"visit"}`, mcp.MethodElicit, "visited", mcp.Version20251125},
		{mcp.MethodPromptsGet, `{"name":"ask"}`, mcp.MethodRootsList, "file:///home", mcp.Version20241105},
		{mcp.MethodResourcesRead, `{"uri":"app:ask"}`, mcp.MethodRootsList, "file:///home", mcp.Version20241105},
	} {
		last, asked := converse(p, test.method, test.params, answers)
		if version < test.since {
			eratest.WantError(t, last, jsonrpc.InvalidRequest) // the version does not have this question
			continue
		}
		if !slices.Equal(asked, []string{test.question}) || !strings.Contains(last, test.answer) {
			t.Errorf("%s %s asks %q and ends with %s", test.method, test.params, asked, last)
		}
	}
}

// testFormOfQuestions checks the params of a question in each version.
func testFormOfQuestions(t *testing.T, version mcp.Version) {
	if version < mcp.Version20250618 {
		return
	}
	p := eratest.Open(t, newAskingServer(nil), version, eratest.Askable)
	question := func(tool string) string {
		p.Start(mcp.MethodToolsCall, `{"name":"`+tool+`"}`)
		frame := p.Next()
		if version.Modern() {
			eratest.Want(t, frame, `"input_required"`, "result", "resultType")
			eratest.Want(t, frame, "", "result", "content")
			eratest.Want(t, frame, `{"name":"asker","version":"1"}`, "result", "_meta", mcp.MetaServerInfo)
			return eratest.At(eratest.Element("["+eratest.At(frame, "result", "inputRequests", map[string]string{"elicit": "where", "visit": "page"}[tool])+"]", 0), "params")
		}
		eratest.Want(t, frame, `"2.0"`, "jsonrpc")
		return eratest.At(frame, "params")
	}
	form := question("elicit")
	eratest.Want(t, form, `"Where to?"`, "message")
	eratest.Want(t, form, `"string"`, "requestedSchema", "properties", "city", "type")
	eratest.Want(t, form, onlyIf(version >= mcp.Version20251125, `"form"`), "mode")
	if version < mcp.Version20251125 {
		return // older versions have no URL elicitation
	}
	visit := question("visit")
	eratest.Want(t, visit, `"url"`, "mode")
	eratest.Want(t, visit, `"https://asker.example/in"`, "url")
	eratest.WantIf(t, visit, !version.Modern(), "elicitationId")
}

// testRounds checks that a function may ask several times, and gets the answers of all rounds
// although a modern client sends only the last ones.
func testRounds(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newAskingServer(nil), version, eratest.Askable)
	last, asked := converse(p, mcp.MethodToolsCall, `{"name":"three"}`, answers)
	if eratest.ResultText(last) != "first, file:///home, third" {
		t.Errorf("three rounds end with %s", last)
	}
	if want := []string{mcp.MethodCreateMessage, mcp.MethodRootsList, mcp.MethodCreateMessage}; !slices.Equal(asked, want) {
		t.Errorf("the rounds ask %q, want %q", asked, want)
	}
}

// testRoundOfTwo checks that joined questions are asked in one round.
func testRoundOfTwo(t *testing.T, version mcp.Version) {
	s := newAskingServer(nil)
	runs := 0
	server.AddTool(s, server.Tool{Name: "both"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		runs++
		roots, err := server.Roots(r, "b roots")
		_, err2 := server.Sample(r, "a model", &mcp.CreateMessageParams{MaxTokens: 1})
		if err := errors.Join(err, err2); err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	server.AddTool(s, server.Tool{Name: "fails"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		_, err := server.Roots(r, "roots")
		return "", errors.Join(err, errors.New("broken"))
	})
	p := eratest.Open(t, s, version, eratest.Askable)
	last, asked := converse(p, mcp.MethodToolsCall, `{"name":"both"}`, func(method, params string) string {
		if method == mcp.MethodCreateMessage {
			return `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`
		}
		return answers(method, params)
	})
	if want := []string{mcp.MethodCreateMessage, mcp.MethodRootsList}; !slices.Equal(asked, want) || runs != 2 || eratest.ResultText(last) != "file:///home" {
		t.Errorf("%d runs ask %q and end with %s", runs, asked, last)
	}
	// An error together with a question is an error.
	eratest.Want(t, p.Call(mcp.MethodToolsCall, `{"name":"fails"}`), "true", "result", "isError")
}

// testUnansweredRound checks that missing answers are asked for again, unknown ones are ignored,
// and malformed ones are refused.
func testUnansweredRound(t *testing.T, version mcp.Version) {
	if !version.Modern() {
		return
	}
	p := eratest.Open(t, newAskingServer(nil), version, eratest.Askable)
	for _, responses := range []string{`{}`, `{"other":{"roots":[]}}`} {
		answer := p.Call(mcp.MethodToolsCall, `{"name":"twin","inputResponses":`+responses+`}`)
		eratest.Want(t, answer, `"input_required"`, "result", "resultType")
		eratest.Want(t, answer, `{"roots":{"method":"roots/list","params":{}}}`, "result", "inputRequests")
	}
	eratest.Want(t, p.Call(mcp.MethodToolsCall, `{"name":"twin","inputResponses":{"more":{},"roots":{"roots":[]}}}`), `"twin"`, "result", "content", "0", "text")
	for _, responses := range []string{`[]`, `"x"`, `{"roots":[]}`, `{"roots":null}`, `{"roots":{"roots":7}}`} {
		answer := p.Call(mcp.MethodToolsCall, `{"name":"twin","inputResponses":`+responses+`}`)
		eratest.WantError(t, answer, jsonrpc.InvalidParams)
	}
	for _, answer := range []string{`{}`, `{"action":"maybe"}`, `{"action":1}`, `{"action":"accept"}`, `{"action":"accept","content":{"city":7}}`, `{"action":"accept","content":[]}`} {
		got := p.Call(mcp.MethodToolsCall, `{"name":"elicit","inputResponses":{"where":`+answer+`}}`)
		eratest.WantError(t, got, jsonrpc.InvalidParams)
	}
}

// testRefusals checks that the function gets the refusal of the person or the client.
func testRefusals(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newAskingServer(nil), version, eratest.Askable)
	if version >= mcp.Version20250618 {
		for _, action := range []string{"decline", "cancel"} {
			last, _ := converse(p, mcp.MethodToolsCall, `{"name":"elicit"}`, func(string, string) string { return `{"action":"` + action + `"}` })
			eratest.Want(t, last, "true", "result", "isError")
			if !strings.Contains(eratest.ResultText(last), action) {
				t.Errorf("the action %s gives %q", action, eratest.ResultText(last))
			}
		}
	}
	if version.Modern() {
		return // a modern client that refuses sends no other request
	}
	p.Start(mcp.MethodToolsCall, `{"name":"three"}`)
	p.Send(`{"jsonrpc":"2.0","id":` + eratest.At(p.Next(), "id") + `,"error":{"code":-1,"message":"User rejected sampling request"}}`)
	eratest.WantError(t, p.Next(), mcp.CodeUserRejected)
}

// testMissingCapability checks that a client gets only questions that it has declared.
func testMissingCapability(t *testing.T, version mcp.Version) {
	for _, test := range []struct{ capabilities, tool, required string }{
		{`{}`, "three", `{"sampling":{}}`},
		{`{"sampling":{}}`, "choose", `{"sampling":{"tools":{}}}`},
		{`{"sampling":{"context":{}}}`, "choose", `{"sampling":{"tools":{}}}`},
		{`{}`, "twin", `{"roots":{}}`},
		{`{"elicitation":{}}`, "visit", `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{"url":{}}}`, "elicit", `{"elicitation":{"form":{}}}`},
	} {
		if version == mcp.Version20250618 && test.tool == "elicit" {
			continue // the version has no modes: elicitation means forms
		}
		p := eratest.Open(t, newAskingServer(nil), version, test.capabilities)
		answer := p.Call(mcp.MethodToolsCall, `{"name":"`+test.tool+`"}`)
		if !version.Modern() {
			eratest.WantError(t, answer, jsonrpc.InvalidRequest)
			continue
		}
		eratest.WantError(t, answer, mcp.CodeMissingClientCapability)
		eratest.Want(t, answer, test.required, "error", "data", "requiredCapabilities")
	}
	if version < mcp.Version20250618 {
		return
	}
	// An empty declaration means forms.
	p := eratest.Open(t, newAskingServer(nil), version, `{"elicitation":{}}`)
	if last, _ := converse(p, mcp.MethodToolsCall, `{"name":"elicit"}`, answers); eratest.ResultText(last) != "to Bern" {
		t.Errorf("a client with forms gets no question: %s", last)
	}
}

// testMayAsk checks that only calls of three methods may ask.
func testMayAsk(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newAskingServer(nil), version, eratest.Askable)
	answer := p.Call(mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"x","value":""}}`)
	eratest.WantError(t, answer, jsonrpc.InternalError)
	p.ExpectSilence()
}

// testEndlessQuestions checks that the number of questions is limited.
func testEndlessQuestions(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newAskingServer(nil), version, eratest.Askable)
	last, asked := converse(p, mcp.MethodToolsCall, `{"name":"endless"}`, answers)
	eratest.WantError(t, last, jsonrpc.InternalError)
	if len(asked) != era.MaxRounds {
		t.Errorf("the call asked %d times, want %d", len(asked), era.MaxRounds)
	}
}

// TestInputTimeout checks that a legacy call waits for an answer for a limited time.
func TestInputTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := eratest.Open(t, newAskingServer(nil), mcp.LatestLegacyVersion, eratest.Askable)
		id := p.Start(mcp.MethodToolsCall, `{"name":"elicit"}`)
		eratest.Want(t, p.Next(), `"elicitation/create"`, "method")
		eratest.Pass(era.InputTimeout - time.Second)
		p.ExpectSilence()
		eratest.Pass(2 * time.Second)
		eratest.Want(t, p.Next(), `"notifications/cancelled"`, "method")
		answer := p.Next()
		eratest.Want(t, answer, id, "id")
		eratest.Want(t, answer, "true", "result", "isError")
	})
}

// TestQuestionInMiddleware checks that middleware gets a question as an error.
func TestQuestionInMiddleware(t *testing.T) {
	eachVersion(t, func(t *testing.T, version mcp.Version) {
		questions := 0
		look := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				if _, ok := errors.AsType[*mcp.InputRequired](err); ok {
					questions++
				}
				return result, err
			}
		}
		p := eratest.Open(t, newAskingServer(&server.Options{Middleware: []mcp.Middleware{look}}), version, eratest.Askable)
		converse(p, mcp.MethodToolsCall, `{"name":"three"}`, answers)
		if questions != 3 {
			t.Errorf("the middleware saw %d questions, want 3", questions)
		}
	})
}
