package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// maxTurns bounds the answers of a model, each of which costs money.
const maxTurns = 20

var errTurns = errors.New("the model has not finished")

// An endpoint is an API with a model.
type endpoint struct{ url, key, model string }

// post sends a request to an API and decodes its answer.
func post(ctx context.Context, url, header, value string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01") // the other APIs ignore it
	req.Header.Set(header, value)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.500s", res.Status, text)
	}
	return json.Unmarshal(text, answer)
}

type addIn struct{ A, B int }

// newServer returns a server with the tools add, chart, which draws, and order, which asks the user.
func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	server.AddTool(s, server.Tool{Name: "chart", Description: "Draw the sales of the last week."},
		func(context.Context, *server.Request, struct{}) (*mcp.ImageContent, error) {
			return mcp.Image([]byte("a chart"), "image/png"), nil
		})
	server.AddTool(s, server.Tool{Name: "order", Description: "Order paper."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			count, err := server.Elicit[int](r, "count", "How many boxes?")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("ordered %d boxes", count), nil
		})
	return s
}

// ask asks the user. This user always answers 3.
func ask(_ context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":3}`)}, nil
}

// An api is a model that makes calls, and then answers with what it was told.
type api struct {
	path    string
	calls   string                                      // the first answer
	check   func(t *testing.T, request []byte) []string // of the second request: the replies, or what the API refuses
	text    func(text string) any                       // the second answer
	run     func(ctx context.Context, api endpoint, tools llm.Tools, prompt string) (string, error)
	schemas string // a part of the first request
}

func apis() map[string]api {
	const image = "YSBjaGFydA=="
	return map[string]api{
		"OpenAI": {
			path: "/v1/chat/completions", run: openAI, schemas: `{"type":"function","function":{"name":"add"`,
			calls: `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[` +
				`{"id":"1","type":"function","function":{"name":"add","arguments":"{\"A\":1,\"B\":2}"}},` +
				`{"id":"2","type":"function","function":{"name":"chart","arguments":""}},` +
				`{"id":"3","type":"function","function":{"name":"order","arguments":"{}"}},` +
				`{"id":"4","type":"function","function":{"name":"fly","arguments":"{}"}}]}}]}`,
			text: func(text string) any {
				return map[string]any{"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": text}}}}
			},
			check: func(t *testing.T, request []byte) (replies []string) {
				var r struct {
					Messages []struct {
						Role    string
						ID      string `json:"tool_call_id"`
						Content json.RawMessage
					}
				}
				decode(t, request, &r)
				for i, id := range []string{"1", "2", "3", "4"} {
					m := r.Messages[2+i]
					var text string
					decode(t, m.Content, &text)
					if m.Role != "tool" || m.ID != id {
						t.Errorf("message %d is of %s for %s", 2+i, m.Role, m.ID)
					}
					replies = append(replies, text)
				}
				if last := r.Messages[6]; last.Role != "user" || !strings.Contains(string(last.Content), `"data:image/png;base64,`+image+`"`) {
					t.Errorf("no message with the image, but %s %s", last.Role, last.Content)
				}
				return replies
			},
		},
		"Anthropic": {
			path: "/v1/messages", run: anthropic, schemas: `{"name":"add","description":"Add two integers.","input_schema":{`,
			calls: `{"content":[{"type":"thinking","thinking":"…","signature":"x"},{"type":"text","text":"Wait."},` +
				`{"type":"tool_use","id":"1","name":"add","input":{"A":1,"B":2}},{"type":"tool_use","id":"2","name":"chart","input":{}},` +
				`{"type":"tool_use","id":"3","name":"order","input":{}},{"type":"tool_use","id":"4","name":"fly","input":{}}]}`,
			text: func(text string) any {
				return map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}}
			},
			check: func(t *testing.T, request []byte) (replies []string) {
				var r struct {
					Messages [3]struct{ Content json.RawMessage }
				}
				decode(t, request, &r)
				if said := string(r.Messages[1].Content); !strings.Contains(said, `"signature":"x"`) {
					t.Errorf("the message of the model is now %s", said)
				}
				var results []struct {
					ID      string `json:"tool_use_id"`
					IsError bool   `json:"is_error"`
					Content []struct {
						Type, Text string
						Source     struct{ Data string }
					}
				}
				decode(t, r.Messages[2].Content, &results)
				for i, result := range results {
					if result.ID != fmt.Sprint(i+1) || result.IsError != (i == 3) {
						t.Errorf("result %d is %+v", i, result)
					}
					for _, block := range result.Content {
						replies = append(replies, block.Text+block.Source.Data)
					}
				}
				return replies
			},
		},
		"Gemini": {
			path: "/v1beta/models/some-model:generateContent", run: gemini, schemas: `{"name":"add","description":"Add two integers.","parametersJsonSchema":{`,
			calls: `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"1","name":"add","args":{"A":1,"B":2}},"thoughtSignature":"x"},` +
				`{"functionCall":{"id":"2","name":"chart"}},{"functionCall":{"id":"3","name":"order","args":{}}},{"functionCall":{"id":"4","name":"fly","args":{}}}]}}]}`,
			text: func(text string) any {
				return map[string]any{"candidates": []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{map[string]string{"text": text}}}}}}
			},
			check: func(t *testing.T, request []byte) (replies []string) {
				var r struct {
					Contents [3]struct {
						Parts []struct {
							ThoughtSignature string
							FunctionResponse struct {
								ID       string
								Response json.RawMessage
								Parts    []struct {
									InlineData struct{ MIMEType, Data string }
								}
							}
						}
					}
				}
				decode(t, request, &r)
				if r.Contents[1].Parts[0].ThoughtSignature != "x" {
					t.Error("the signature of the model is lost")
				}
				for i, part := range r.Contents[2].Parts {
					if part.FunctionResponse.ID != fmt.Sprint(i+1) {
						t.Errorf("response %d is %+v", i, part)
					}
					reply := string(part.FunctionResponse.Response)
					for _, media := range part.FunctionResponse.Parts {
						reply += media.InlineData.Data
					}
					replies = append(replies, reply)
				}
				return replies
			},
		},
	}
}

func decode(t *testing.T, text []byte, value any) {
	t.Helper()
	if err := json.Unmarshal(text, value); err != nil {
		t.Fatalf("%.300s: %v", text, err)
	}
}

// Each loop makes the calls of the model, and the replies have the form of its API.
func TestLoops(t *testing.T) {
	want := map[string][]string{
		"OpenAI":    {"3", "[The next message of the user has 1 images or documents of this result.]", "ordered 3 boxes", `{"error":"There is no tool \"fly\"."}`},
		"Anthropic": {"3", "YSBjaGFydA==", "ordered 3 boxes", `There is no tool "fly".`},
		"Gemini":    {`{"output":3}`, `{"output":""}YSBjaGFydA==`, `{"output":"ordered 3 boxes"}`, `{"error":"There is no tool \"fly\"."}`},
	}
	for name, api := range apis() {
		t.Run(name, func(t *testing.T) {
			turn := 0
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				request, err := io.ReadAll(r.Body)
				if err != nil || r.URL.Path != api.path || !strings.Contains(fmt.Sprint(r.Header), "secret") {
					t.Errorf("%s, %v", r.URL, err)
				}
				if turn++; turn == 1 {
					if !strings.Contains(string(request), api.schemas) {
						t.Errorf("the request is %s", request)
					}
					_, _ = io.WriteString(w, api.calls)
					return
				}
				if got := api.check(t, request); !slices.Equal(got, want[name]) {
					t.Errorf("the replies are %q, want %q", got, want[name])
				}
				_ = json.NewEncoder(w).Encode(api.text("done"))
			}))
			defer web.Close()
			session, err := client.Connect(t.Context(), transport.Pipe(newServer()), &client.Options{Elicit: ask})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got, err := api.run(t.Context(), endpoint{web.URL, "secret", "some-model"}, llm.SessionTools(session), "How much is 1 + 2?"); got != "done" || err != nil {
				t.Errorf("the answer is %q, %v", got, err)
			}
		})
	}
}

func Example_session() {
	ctx := context.Background()
	dialer := transport.Pipe(newServer())
	session, err := client.Connect(ctx, dialer, &client.Options{Elicit: ask}) // ask shows a question to the user
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	tools := llm.SessionTools(session)
	result, err := tools.CallTool(ctx, "order", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: ordered 3 boxes
}

func Example_bridge() {
	ctx := context.Background()
	servers, err := bridge.New(nil,
		bridge.Config{Alias: "shop", Dialer: transport.Pipe(newServer())},
		bridge.Config{Alias: "office", Dialer: transport.Pipe(newServer())},
	)
	if err != nil {
		log.Fatal(err)
	}
	agent := server.New(mcp.Implementation{Name: "agent", Version: "1.0.0"}, nil)
	if err := agent.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer agent.Shutdown(ctx)
	session, err := client.Connect(ctx, transport.Pipe(agent), &client.Options{Elicit: ask})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	replies := llm.Run(ctx, llm.SessionTools(session), []llm.Call{{ID: "1", Name: "office__order"}})
	fmt.Println(replies[0].Result.Text())
	// Output: ordered 3 boxes
}

// Own tools are added to the definitions, and tried first.
func Example_own() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newServer()), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	clock := func(_ context.Context, name string, _ json.RawMessage) (string, error) {
		if name != "now" {
			return "", bridge.ErrUnknownTool
		}
		return "12:00", nil
	}
	call := llm.FirstMatch(clock, llm.NewHandler(llm.SessionTools(session)))
	fmt.Println(call(ctx, "now", nil))
	fmt.Println(call(ctx, "add", json.RawMessage(`{"A":1,"B":2}`)))
	// Output:
	// 12:00 <nil>
	// 3 <nil>
}
