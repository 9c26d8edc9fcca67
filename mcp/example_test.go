package mcp_test

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/mcp"
)

func show(value json.Marshaler) {
	encoded, err := value.MarshalJSON()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", encoded)
}

func ExampleText() {
	show(&mcp.CallToolResult{
		Content:           []mcp.Content{mcp.Text("the sum is 5")},
		StructuredContent: json.RawMessage(`{"sum": 5}`),
	})
	// Output: {"content":[{"type":"text","text":"the sum is 5"}],"structuredContent":{"sum": 5}}
}

func ExampleImage() {
	show(mcp.Image([]byte("GIF89a"), "image/gif"))
	// Output: {"type":"image","data":"R0lGODlh","mimeType":"image/gif"}
}

func ExampleAudio() {
	show(mcp.Audio([]byte("RIFF"), "audio/wav"))
	// Output: {"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}
}

func ExampleEmbed() {
	show(mcp.Embed(&mcp.TextResourceContents{URI: "recipe://rye", Text: "flour, water"}))
	// Output: {"type":"resource","resource":{"uri":"recipe://rye","text":"flour, water"}}
}

func ExampleResource_Link() {
	rye := &mcp.Resource{URI: "recipe://rye", Name: "rye"}
	show(rye.Link())
	// Output: {"type":"resource_link","uri":"recipe://rye","name":"rye"}
}

func ExampleDecodeContent() {
	for _, text := range []string{
		`{"type":"text","text":"hello"}`,
		`{"type":"hologram","of":"a cat"}`,
		`{"type":"text","text":42}`,
	} {
		content, err := mcp.DecodeContent([]byte(text))
		switch content := content.(type) {
		case *mcp.TextContent:
			fmt.Println("text:", content.Text)
		case *mcp.UnknownContent:
			fmt.Println("unknown:", content.Type())
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// text: hello
	// unknown: hologram
	// mcp: at /text: expected a string, got a number
}

func ExampleSamplingPrompt() {
	params := mcp.SamplingPrompt("A slogan for bread.")
	params.MaxTokens = 20
	show(params)
	// Output: {"messages":[{"role":"user","content":{"type":"text","text":"A slogan for bread."}}],"maxTokens":20}
}

func ExampleMeta_Set() {
	var meta mcp.Meta
	if err := meta.Set(mcp.MetaProgressToken, json.RawMessage(`"upload-1"`)); err != nil {
		fmt.Println(err)
		return
	}
	show(&mcp.CallToolParams{Name: "upload", Meta: meta})
	// Output: {"name":"upload","_meta":{"progressToken":"upload-1"}}
}

func ExampleMeta_SetValue() {
	var meta mcp.Meta
	if err := meta.SetValue("example.com/cost", map[string]any{"currency": "EUR", "cents": 12}); err != nil {
		fmt.Println(err)
		return
	}
	show(&mcp.CallToolResult{Content: []mcp.Content{mcp.Text("done")}, Meta: meta})
	// Output: {"content":[{"type":"text","text":"done"}],"_meta":{"example.com/cost":{"cents":12,"currency":"EUR"}}}
}

func ExampleMeta_ToolUI() {
	meta := mcp.Meta(`{"ui":{"resourceUri":"ui://shop/cart","visibility":["app"]}}`)
	ui, err := meta.ToolUI()
	fmt.Println(ui.ResourceURI, ui.VisibleTo(mcp.VisibleToModel), err)
	// Output: ui://shop/cart false <nil>
}

func ExampleMeta_SetResourceUI() {
	var meta mcp.Meta
	err := meta.SetResourceUI(mcp.ResourceUI{CSP: &mcp.CSP{ConnectDomains: []string{"https://api.example.com"}}})
	fmt.Println(string(meta), err)
	err = meta.SetResourceUI(mcp.ResourceUI{CSP: &mcp.CSP{ConnectDomains: []string{"api.example.com"}}})
	fmt.Println(err)
	// Output:
	// {"ui":{"csp":{"connectDomains":["https://api.example.com"]}}} <nil>
	// mcp: _meta.ui: csp: connectDomains has origins such as https://api.example.com or https://*.example.com, not "api.example.com"
}

func ExampleElicitSchema() {
	show(&mcp.ElicitSchema{Fields: []mcp.ElicitField{
		{Name: "email", Required: true, Schema: &mcp.StringSchema{Format: mcp.FormatEmail}},
		{Name: "size", Schema: &mcp.EnumSchema{Options: []mcp.EnumOption{{Value: "S"}, {Value: "M"}}}},
	}})
	// Output: {"type":"object","properties":{"email":{"type":"string","format":"email"},"size":{"type":"string","enum":["S","M"]}},"required":["email"]}
}

func ExampleParseElicitSchema() {
	schema, err := mcp.ParseElicitSchema([]byte(`{"type":"object","properties":{"age":{"type":"integer","minimum":0}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.Check(json.RawMessage(`{"age":-1}`)))
	// Output: mcp: at /age: expected at least 0, got -1
}

func ExampleApplyElicitDefaults() {
	schema := json.RawMessage(`{"type":"object","properties":{"size":{"type":"string","enum":["S","M"],"default":"M"}}}`)
	content, err := mcp.ApplyElicitDefaults(schema, nil)
	fmt.Println(string(content), err)
	// Output: {"size":"M"} <nil>
}

func ExampleCallToolResult_Text() {
	result := &mcp.CallToolResult{Content: mcp.ContentList{
		&mcp.TextContent{Text: "two boards"},
		&mcp.ImageContent{Data: []byte("…"), MIMEType: "image/png"},
		&mcp.TextContent{Text: "one drawer"},
	}}
	fmt.Println(result.Text())
	// Output:
	// two boards
	// one drawer
}

func ExampleNewDefinition() {
	definition := mcp.NewDefinition(json.RawMessage(`{"name":"erase","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`))
	fmt.Println(*definition.Annotations().DestructiveHint, string(definition.InputSchema()))
	// Output: true {"type":"object"}
}
