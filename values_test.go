package dovetail_test

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Values holds values of types that JSON libraries treat differently.
type Values struct {
	Number  json.Number            `json:"number"`
	Numbers []json.Number          `json:"numbers"`
	Map     map[string]json.Number `json:"map"`
	Quoted  json.Number            `json:"quoted,string"`
	Nested  struct {
		Number *json.Number `json:"number"`
		Text   string       `json:"text"`
	} `json:"nested"`
	Any    map[string]any `json:"any"`
	Text   string         `json:"text"`
	Texts  []string       `json:"texts"`
	Big    *big.Int       `json:"big"`
	Wait   time.Duration  `json:"wait"`
	Bytes  []byte         `json:"bytes"`
	Raw    any            `json:"raw"`
	Absent json.Number    `json:"absent,omitempty"`
}

func newValues() Values {
	v := Values{
		Number: "12345678901234567890.25", Numbers: []json.Number{"1", "-2.50", "3e400"}, Map: map[string]json.Number{"a\xff": "9007199254740993"}, Quoted: "7",
		Any:  map[string]any{"number": json.Number("9007199254740993"), "list": []any{json.Number("0.10"), "\xff", nil}, "big": big.NewInt(5)},
		Text: "caf\xc3", Texts: []string{"\xff", "é"}, Big: new(big.Int).Lsh(big.NewInt(1), 90), Wait: time.Second, Bytes: []byte{0xfb, 0xff},
		Raw: json.RawMessage(`{"a":1.50,"b":123456789012345678901}`),
	}
	n := json.Number("5")
	v.Nested.Number, v.Nested.Text = &n, "\xe4"
	return v
}

// parseValue returns JSON with exact numbers: 1.50 is 1.5.
func parseValue(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.200s: %v", raw, err)
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, ok := new(big.Rat).SetString(string(v)); ok {
			return n.RatString()
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = exact(v[key])
		}
	}
	return v
}

type valuesArgs struct {
	Values Values `json:"values"`
}

// TestValuesThroughEachDoor sends the same values through each place that encodes or decodes Go values, and compares
// them with encoding/json.
func TestValuesThroughEachDoor(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "values", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "get"}, func(context.Context, *server.Request, struct{}) (Values, error) { return newValues(), nil })
	server.AddTool(s, server.Tool{Name: "pointer"}, func(context.Context, *server.Request, struct{}) (*Values, error) {
		v := newValues()
		return &v, nil
	})
	server.AddTool(s, server.Tool{Name: "any"}, func(context.Context, *server.Request, struct{}) (any, error) { return newValues(), nil })
	server.AddTool(s, server.Tool{Name: "raw"}, func(context.Context, *server.Request, struct{}) (*mcp.CallToolResult, error) {
		raw, err := json.Marshal(newValues())
		return &mcp.CallToolResult{StructuredContent: raw}, err
	})
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in valuesArgs) (Values, error) { return in.Values, nil })
	server.AddTool(s, server.Tool{Name: "echo_any"}, func(_ context.Context, _ *server.Request, in map[string]any) (any, error) { return in["values"], nil })
	server.AddTool(s, server.Tool{Name: "log"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Logger("values").Info("values", "values", newValues(), slog.Group("group", "values", newValues()))
		return "", nil
	})
	server.AddTool(s, server.Tool{Name: "once"}, func(_ context.Context, r *server.Request, _ struct{}) (Values, error) {
		v, err := server.Once(r, "values", func() (Values, error) { return newValues(), nil })
		if err != nil {
			return v, err
		}
		_, err = server.Elicit[bool](r, "go on", "Go on?")
		return v, err
	})
	server.AddTool(s, server.Tool{Name: "sample"}, func(_ context.Context, r *server.Request, _ struct{}) (Values, error) {
		return server.SampleAs[Values](r, "values", &mcp.CreateMessageParams{MaxTokens: 100})
	})
	server.AddStream(s, server.Tool{Name: "stream"}, func(context.Context, *server.Request, struct{}) iter.Seq2[Values, error] {
		return func(yield func(Values, error) bool) { yield(newValues(), nil) }
	}, server.LastChunk[Values])
	server.AddResource(s, server.Resource{URI: "values://all"}, func(context.Context, *server.Request) (Values, error) { return newValues(), nil })
	type payload struct {
		Values Values `json:"values"`
	}
	topic := server.AddEvent(s, server.Event{Name: "values"}, func(_ *mcp.Caller, _ struct{}, p payload) (payload, bool) { return p, true })

	want, err := json.Marshal(newValues())
	if err != nil {
		t.Fatal(err)
	}
	logs := make(chan json.RawMessage, 1)
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{
		LogLevel: mcp.LevelDebug,
		OnLog:    func(_ context.Context, m *mcp.LoggingMessageParams) { logs <- m.Data },
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":true}`)}, nil
		},
		Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: mcp.SamplingContent{mcp.Text(string(want))}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	structured := func(name string, arguments any) func(t *testing.T) ([]byte, error) {
		return func(t *testing.T) ([]byte, error) {
			result, err := session.CallTool(t.Context(), name, arguments, nil)
			if err != nil {
				return nil, err
			}
			if result.IsError {
				t.Fatal(result.Text())
			}
			if diff := cmp.Diff(parseValue(t, result.StructuredContent), parseValue(t, []byte(result.Text()))); diff != "" {
				t.Errorf("the text differs from the structured content: %s", diff)
			}
			return result.StructuredContent, nil
		}
	}
	again := func(v any, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}
	for name, door := range map[string]func(t *testing.T) ([]byte, error){
		"result":                 structured("get", nil),
		"pointer result":         structured("pointer", nil),
		"any result":             structured("any", nil),
		"raw result":             structured("raw", nil),
		"argument":               structured("echo", valuesArgs{newValues()}),
		"argument in a map":      structured("echo", map[string]any{"values": newValues()}),
		"argument of any type":   structured("echo_any", map[string]any{"values": newValues()}),
		"Once":                   structured("once", nil),
		"answer of a model":      structured("sample", nil),
		"last chunk of a stream": structured("stream", nil),
		"CallAs": func(t *testing.T) ([]byte, error) {
			return again(client.CallAs[Values](t.Context(), session, "get", nil, nil))
		},
		"CallAs any": func(t *testing.T) ([]byte, error) {
			return again(client.CallAs[any](t.Context(), session, "get", nil, nil))
		},
		"chunk": func(t *testing.T) (raw []byte, err error) {
			for chunk, err := range session.Stream(t.Context(), "stream", nil, nil) {
				return chunk, err
			}
			return nil, nil
		},
		"resource": func(t *testing.T) ([]byte, error) {
			result, err := session.ReadResource(t.Context(), "values://all", nil)
			if err != nil {
				return nil, err
			}
			return []byte(result.Text()), nil
		},
		"log": func(t *testing.T) ([]byte, error) {
			if _, err := session.CallTool(t.Context(), "log", nil, nil); err != nil {
				return nil, err
			}
			var data struct{ Values, Group json.RawMessage }
			err := json.Unmarshal(waittest.Receive(t, "a log message", logs), &data)
			if diff := cmp.Diff(parseValue(t, []byte(`{"values":`+string(data.Values)+`}`)), parseValue(t, data.Group)); diff != "" {
				t.Errorf("a value in a group differs: %s", diff)
			}
			return data.Values, err
		},
		"event": func(t *testing.T) ([]byte, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			begun, published := make(chan struct{}, 16), make(chan error, 1)
			go func() {
				<-begun
				published <- topic.Publish(ctx, payload{newValues()}, nil)
			}()
			defer func() {
				if err := waittest.Receive(t, "the end of Publish", published); err != nil {
					t.Error(err)
				}
			}()
			opts := &client.EventsOptions{OnCursor: func(string) { begun <- struct{}{} }}
			for event, err := range client.Events[payload](ctx, session, "values", nil, opts) {
				return again(event.Payload.Values, err)
			}
			return nil, nil
		},
		"llm": func(t *testing.T) ([]byte, error) {
			result, err := session.CallTool(t.Context(), "get", nil, nil)
			if err != nil {
				return nil, err
			}
			return llm.Value(result)
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := door(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parseValue(t, want), parseValue(t, got)); diff != "" {
				t.Errorf("-encoding/json +here:\n%s", diff)
			}
		})
	}

	t.Run("runner of a tool server", func(t *testing.T) {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Arguments json.RawMessage `json:"tool_args"`
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			_, _ = w.Write(append(append([]byte(`{"result":`), body.Arguments...), '}'))
		}))
		defer web.Close()
		runner, err := toolserver.NewRunner(web.URL, "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := again(toolserver.RunAs[Values](t.Context(), runner, "echo", newValues()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parseValue(t, want), parseValue(t, got)); diff != "" {
			t.Errorf("-encoding/json +here:\n%s", diff)
		}
	})
}
