package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// Sending what is sent all the time allocates nothing but the buffer.
func TestAppendAllocations(t *testing.T) {
	total := 10.0
	for _, value := range []mcp.Result{
		&mcp.CallToolResult{Content: []mcp.Content{mcp.Text("some text"), mcp.Image(make([]byte, 64), "image/png")}, StructuredContent: json.RawMessage(`{"a":[1,2,3]}`)},
		&mcp.TextContent{Text: "some text", Meta: mcp.Meta(`{"a":1}`)},
		&mcp.ProgressParams{ProgressToken: mcp.ProgressToken("1"), Progress: 1, Total: &total, Message: "on the way"},
		&mcp.LoggingMessageParams{Level: mcp.LevelInfo, Logger: "db", Data: json.RawMessage(`"connected"`)},
		&mcp.ReadResourceResult{Contents: []mcp.ResourceContents{
			&mcp.TextResourceContents{URI: "file:///a", Text: "text"},
			&mcp.BlobResourceContents{URI: "file:///b", Blob: make([]byte, 64)},
		}},
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := value.AppendJSON(make([]byte, 0, 1024)); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 1 {
			t.Errorf("%T: %v allocations, want at most 1", value, allocs)
		}
	}
}

func BenchmarkAppendCallToolResult(b *testing.B) {
	result := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("the sum is 5")}, StructuredContent: json.RawMessage(`{"sum":5}`)}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := result.AppendJSON(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeCallToolResult(b *testing.B) {
	encoded := []byte(`{"content":[{"type":"text","text":"the sum is 5"}],"structuredContent":{"sum":5}}`)
	b.ReportAllocs()
	for b.Loop() {
		var result mcp.CallToolResult
		if err := result.UnmarshalJSON(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeListTools(b *testing.B) {
	page := &mcp.ListToolsResult{}
	for range 100 {
		page.Tools = append(page.Tools, mcp.Tool{Name: "search", Description: "Full-text search.", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`)})
	}
	encoded := appended(b, page)
	b.SetBytes(int64(len(encoded)))
	b.ReportAllocs()
	for b.Loop() {
		var result mcp.ListToolsResult
		if err := result.UnmarshalJSON(encoded); err != nil {
			b.Fatal(err)
		}
	}
}
