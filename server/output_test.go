package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestGivenOutputSchemaIsKept: a result that does not fit is not sent. The operator is
// told where it is wrong, the caller only that it is.
func TestGivenOutputSchemaIsKept(t *testing.T) {
	const given = `{"type":"object","properties":{"n":{"type":"integer","minimum":1},"s":{"type":"string"}},"required":["n"]}`
	const secret = "the safe is behind the picture"
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		gives := func(name string, out any) {
			server.AddTool(s, server.Tool{Name: name, OutputSchema: jsonRaw(given)}, func(context.Context, *server.Request, struct{}) (any, error) { return out, nil })
			server.AddRawTool(s, server.Tool{Name: "raw_" + name, InputSchema: jsonRaw(`{"type":"object"}`), OutputSchema: jsonRaw(given)},
				func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) {
					if result, ok := out.(*mcp.CallToolResult); ok {
						return result, nil
					}
					return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: mustJSON(t, out)}, nil
				})
		}
		gives("fits", map[string]any{"n": 1, "s": secret})
		gives("misses", map[string]any{"s": secret})
		gives("mistypes", map[string]any{"n": secret})
		gives("bounds", map[string]any{"n": 0, "s": secret})
		gives("text", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(secret)}})
		gives("fails", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("an error of its own")}, IsError: true})
		server.AddTool(s, server.Tool{Name: "string", OutputSchema: jsonRaw(given)}, func(context.Context, *server.Request, struct{}) (any, error) { return secret, nil })
		session := connect(t, s, era)
		for _, name := range []string{"fits", "raw_fits", "fails", "raw_fails"} {
			if result := call(t, session, name, `{}`); result.IsError != strings.HasSuffix(name, "fails") {
				t.Errorf("%s gives %+v", name, result)
			}
		}
		for name, place := range map[string]string{"misses": `\"n\"`, "mistypes": "/n", "bounds": "/n", "text": "null", "string": ""} {
			for _, tool := range []string{name, "raw_" + name} {
				if tool == "raw_string" {
					continue
				}
				log.Reset()
				_, err := session.CallTool(t.Context(), tool, nil, nil)
				if wantCode(t, err, jsonrpc.InternalError); strings.Contains(message(err), "safe") || strings.Contains(message(err), "/n") {
					t.Errorf("%s: the caller is told %q", tool, message(err))
				}
				if !strings.Contains(log.String(), place) || !strings.Contains(log.String(), `"tool":"`+tool+`"`) {
					t.Errorf("%s: the operator is told %s", tool, &log)
				}
			}
		}
	})
}

// TestContentArrives: content of all kinds, with all that may stand on it, is the same
// at the other end.
func TestContentArrives(t *testing.T) {
	size, priority := int64(3), 0.5
	about := &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: &priority, LastModified: "2026-07-28T00:00:00Z"}
	content := []mcp.Content{
		&mcp.TextContent{Text: "a", Annotations: about, Meta: mcp.Meta(`{"x":1}`)},
		&mcp.ImageContent{Data: []byte{0, 255}, MIMEType: "image/png", Annotations: about},
		&mcp.AudioContent{Data: []byte{1}, MIMEType: "audio/wav", Meta: mcp.Meta(`{"x":1}`)},
		&mcp.ResourceLink{URI: "app:a", Name: "a", Title: "A", Description: "a thing", MIMEType: "text/plain", Size: &size, Annotations: about},
		&mcp.EmbeddedResource{Resource: &mcp.TextResourceContents{URI: "app:t", MIMEType: "text/plain", Text: ""}, Annotations: about},
		&mcp.EmbeddedResource{Resource: &mcp.BlobResourceContents{URI: "app:b", Blob: []byte{}, Meta: mcp.Meta(`{"x":1}`)}},
		&mcp.UnknownContent{Raw: jsonRaw(`{"type":"hologram","depth":1.50}`)},
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		returns(s, "list", content)
		returns(s, "result", &mcp.CallToolResult{Content: content, StructuredContent: jsonRaw(`{"a": 1.50}`), Meta: mcp.Meta(`{"org.example/x":1}`)})
		server.AddPrompt(s, server.Prompt{Name: "prompt"}, func(context.Context, *server.Request, struct{}) ([]mcp.PromptMessage, error) {
			var messages []mcp.PromptMessage
			for _, c := range content {
				messages = append(messages, mcp.PromptMessage{Role: mcp.RoleAssistant, Content: c})
			}
			return messages, nil
		})
		session := connect(t, s, era)
		for _, tool := range []string{"list", "result"} {
			result := call(t, session, tool, `{}`)
			if diff := cmp.Diff(content, []mcp.Content(result.Content)); diff != "" {
				t.Errorf("%s (-sent +got):\n%s", tool, diff)
			}
			if own := strings.Contains(string(result.Meta), `"org.example/x":1`); own != (tool == "result") {
				t.Errorf("%s has _meta %s", tool, result.Meta)
			}
			if got := string(result.StructuredContent); tool == "result" && got != `{"a": 1.50}` {
				t.Errorf("the structured content is %s", got)
			}
		}
		prompt, err := session.Prompt(t.Context(), "prompt", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, message := range prompt.Messages {
			if diff := cmp.Diff(content[i], message.Content); diff != "" || message.Role != mcp.RoleAssistant {
				t.Errorf("message %d of the %s (-sent +got):\n%s", i, message.Role, diff)
			}
		}
	})
}

// TestTextThatLooksLikeAResult is text, and a value that looks like one is a value.
func TestTextThatLooksLikeAResult(t *testing.T) {
	const looks = `{"content":[{"type":"text","text":"x"}],"isError":true}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		returns(s, "text", looks)
		returns(s, "value", map[string]any{"content": []any{map[string]any{"text": "x", "type": "text"}}, "isError": true})
		session := connect(t, s, era)
		if result := call(t, session, "text", `{}`); texts(result) != looks || result.IsError || result.StructuredContent != nil {
			t.Errorf("the text is %+v", result)
		}
		result := call(t, session, "value", `{}`)
		if want := `{"content":[{"text":"x","type":"text"}],"isError":true}`; result.IsError || texts(result) != want || string(result.StructuredContent) != want {
			t.Errorf("the value is %+v", result)
		}
	})
}

func mustJSON(t testing.TB, value any) jsonRaw {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
