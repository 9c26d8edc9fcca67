package mcp_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// TestAppendAllocations checks that frequent messages allocate only the buffer.
func TestAppendAllocations(t *testing.T) {
	total := 10.0
	for _, value := range []mcp.Result{
		&mcp.CallToolResult{Content: []mcp.Content{mcp.Text("some text"), mcp.Image(make([]byte, 64), "image/png")}, StructuredContent: json.RawMessage(`{"a":[1,2,3]}`)},
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

// manyTools is a list as a server with reflected schemas sends it.
func manyTools(t testing.TB) []byte {
	const schema = `{"type":"object","properties":{"query_%[1]d":{"type":"string"},"limit_%[1]d":{"type":"integer"},` +
		`"place_%[1]d":{"type":"object","properties":{"X%[1]d":{"type":"number"},"Y%[1]d":{"type":"number"}},"required":["X%[1]d","Y%[1]d"],` +
		`"additionalProperties":false}},"required":["query_%[1]d","place_%[1]d"],"additionalProperties":false}`
	page := &mcp.ListToolsResult{}
	for i := range 1000 {
		described := fmt.Appendf(nil, schema, i)
		page.Tools = append(page.Tools, mcp.Tool{Name: fmt.Sprintf("tool_%04d", i), Description: "One of many.", InputSchema: described, OutputSchema: described})
	}
	return appended(t, page)
}

// A list takes little more memory than its tools keep, and few allocations for each tool.
func TestListAllocations(t *testing.T) {
	encoded := manyTools(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var page mcp.ListToolsResult
	if err := page.UnmarshalJSON(encoded); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	kept := len(encoded) + len(page.Tools)*int(reflect.TypeFor[mcp.Tool]().Size())
	if took := int(after.TotalAlloc - before.TotalAlloc); took > kept*3/2 {
		t.Errorf("%d tools take %d bytes, of which %d are kept", len(page.Tools), took, kept)
	}
	if took := after.Mallocs - before.Mallocs; took > 3500 {
		t.Errorf("%d tools take %d allocations", len(page.Tools), took)
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
	encoded := manyTools(b)
	b.SetBytes(int64(len(encoded)))
	b.ReportAllocs()
	for b.Loop() {
		var result mcp.ListToolsResult
		if err := result.UnmarshalJSON(encoded); err != nil {
			b.Fatal(err)
		}
	}
}
