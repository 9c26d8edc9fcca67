package llm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/mcp"
)

func replyOf(t *testing.T, result string) []llm.Reply {
	t.Helper()
	r := new(mcp.CallToolResult)
	if err := r.UnmarshalJSON([]byte(result)); err != nil {
		t.Fatal(err)
	}
	return []llm.Reply{{Call: llm.Call{ID: "1", Name: "f"}, Result: r}}
}

// list returns JSON values as one array.
func list(t *testing.T, values []json.RawMessage) string {
	t.Helper()
	encoded, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// Each block of a result becomes what the API reads: [text] is a text, and <…> the rest.
func TestReplies(t *testing.T) {
	const (
		openAI    = `[{"content":%s,"role":"tool","tool_call_id":"1"}]`
		openAIAnd = `[{"content":"[The next message of the user has 1 images or documents of this result.]","role":"tool","tool_call_id":"1"},` +
			`{"content":[{"text":"From the result of f, call 1:","type":"text"},%s],"role":"user"}]`
		anthropic = `[{"content":[%s],"tool_use_id":"1","type":"tool_result"}]`
		gemini    = `[{"functionResponse":{"id":"1","name":"f","response":%s}}]`
		geminiAnd = `[{"functionResponse":{"id":"1","name":"f","parts":[%s],"response":{"output":""}}}]`
	)
	text := func(text string) [3]string { // the same text for all
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return [3]string{fmt.Sprintf(openAI, quoted), fmt.Sprintf(anthropic, `{"text":`+string(quoted)+`,"type":"text"}`), fmt.Sprintf(gemini, `{"output":`+string(quoted)+`}`)}
	}
	image := func(kind string) [3]string {
		return [3]string{
			fmt.Sprintf(openAIAnd, `{"image_url":{"url":"data:`+kind+`;base64,AAE="},"type":"image_url"}`),
			fmt.Sprintf(anthropic, `{"source":{"data":"AAE=","media_type":"`+kind+`","type":"base64"},"type":"image"}`),
			fmt.Sprintf(geminiAnd, `{"inlineData":{"data":"AAE=","mimeType":"`+kind+`"}}`),
		}
	}
	gif := image("image/gif")
	gif[2] = text(`[image with the type "image/gif" and 2 bytes, which cannot be shown]`)[2]
	const link = `{"type":"resource_link","uri":"a:b","name":"c"}`
	for name, test := range map[string]struct {
		result string
		want   [3]string
	}{
		"text":            {`{"content":[{"type":"text","text":"a\"b"}]}`, text(`a"b`)},
		"nothing":         {`{"content":[]}`, [3]string{fmt.Sprintf(openAI, `""`), fmt.Sprintf(anthropic, ""), fmt.Sprintf(gemini, `{"output":""}`)}},
		"empty text":      {`{"content":[{"type":"text","text":""}]}`, [3]string{fmt.Sprintf(openAI, `""`), fmt.Sprintf(anthropic, ""), fmt.Sprintf(gemini, `{"output":""}`)}},
		"PNG":             {`{"content":[{"type":"image","data":"AAE=","mimeType":"image/png"}]}`, image("image/png")},
		"unusual JPEG":    {`{"content":[{"type":"image","data":"AAE=","mimeType":"Image/JPG; q=1"}]}`, image("image/jpeg")},
		"WebP":            {`{"content":[{"type":"image","data":"AAE=","mimeType":"image/webp"}]}`, image("image/webp")},
		"GIF":             {`{"content":[{"type":"image","data":"AAE=","mimeType":"image/gif"}]}`, gif},
		"embedded image":  {`{"content":[{"type":"resource","resource":{"uri":"file:///a.png","mimeType":"image/png","blob":"AAE="}}]}`, image("image/png")},
		"SVG":             {`{"content":[{"type":"image","data":"AAE=","mimeType":"image/svg+xml"}]}`, text(`[image with the type "image/svg+xml" and 2 bytes, which cannot be shown]`)},
		"no type":         {`{"content":[{"type":"image","data":"AAE=","mimeType":""}]}`, text(`[image with the type "" and 2 bytes, which cannot be shown]`)},
		"sound":           {`{"content":[{"type":"audio","data":"AAE=","mimeType":"audio/wav"}]}`, text(`[audio with the type "audio/wav" and 2 bytes, which cannot be shown]`)},
		"other data":      {`{"content":[{"type":"resource","resource":{"uri":"file:///a.zip","mimeType":"application/zip","blob":"AAE="}}]}`, text(`[a.zip with the type "application/zip" and 2 bytes, which cannot be shown]`)},
		"text as data":    {`{"content":[{"type":"resource","resource":{"uri":"file:///a.csv","mimeType":"text/csv; charset=utf-8","blob":"YSxi"}}]}`, text("a.csv:\na,b")},
		"embedded text":   {`{"content":[{"type":"resource","resource":{"uri":"file:///a.txt","text":"b"}}]}`, text("file:///a.txt:\nb")},
		"link":            {`{"content":[` + link + `]}`, text(link)},
		"unknown block":   {`{"content":[{"type":"hologram","x":1e400}]}`, text(`{"type":"hologram","x":1e400}`)},
		"only structured": {`{"content":[],"structuredContent":{"n":9007199254740993}}`, [3]string{text(`{"n":9007199254740993}`)[0], text(`{"n":9007199254740993}`)[1], fmt.Sprintf(gemini, `{"output":{"n":9007199254740993}}`)}},
		"structured":      {`{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1}}`, [3]string{text("a")[0], text("a")[1], fmt.Sprintf(gemini, `{"output":{"n":1}}`)}},
		"PDF": {`{"content":[{"type":"resource","resource":{"uri":"file:///a.pdf","mimeType":"application/pdf","blob":"AAE="}}]}`, [3]string{
			fmt.Sprintf(openAIAnd, `{"file":{"file_data":"data:application/pdf;base64,AAE=","filename":"a.pdf"},"type":"file"}`),
			fmt.Sprintf(anthropic, `{"source":{"data":"AAE=","media_type":"application/pdf","type":"base64"},"type":"document"}`),
			fmt.Sprintf(geminiAnd, `{"inlineData":{"data":"AAE=","mimeType":"application/pdf"}}`),
		}},
		"failure": {`{"content":[{"type":"text","text":"no"},{"type":"text","text":"way"}],"isError":true,"structuredContent":{}}`, [3]string{
			fmt.Sprintf(openAI, `"{\"error\":\"no\\nway\"}"`),
			`[{"content":[{"text":"no","type":"text"},{"text":"way","type":"text"}],"is_error":true,"tool_use_id":"1","type":"tool_result"}]`,
			fmt.Sprintf(gemini, `{"error":"no\nway"}`),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			replies := replyOf(t, test.result)
			for i, got := range []string{list(t, llm.OpenAIReplies(replies, nil)), list(t, llm.AnthropicReplies(replies, nil)), list(t, llm.GeminiReplies(replies, nil))} {
				if got != test.want[i] {
					t.Errorf("got\n%s\nwant\n%s", got, test.want[i])
				}
			}
		})
	}
}

// In a conversation with OpenAI, all replies come before the first message of the user.
func TestOrderOfOpenAIReplies(t *testing.T) {
	image := replyOf(t, `{"content":[{"type":"image","data":"AAE=","mimeType":"image/png"}]}`)[0]
	var roles []string
	for _, message := range llm.OpenAIReplies([]llm.Reply{image, image}, nil) {
		var m struct{ Role string }
		if err := json.Unmarshal(message, &m); err != nil {
			t.Fatal(err)
		}
		roles = append(roles, m.Role)
	}
	if got := strings.Join(roles, " "); got != "tool tool user user" {
		t.Errorf("the roles are %s", got)
	}
}

// A server decides neither how many bytes a reply has nor how many blocks or notes.
func TestLimitsOfReplies(t *testing.T) {
	many := func(block string, n int) string {
		return `{"content":[` + strings.TrimSuffix(strings.Repeat(block+",", n), ",") + `]}`
	}
	long := `{"type":"text","text":"` + strings.Repeat("é", 1000) + `"}`
	image := `{"type":"image","data":"` + strings.Repeat("AAAA", 250) + `","mimeType":"image/png"}`
	letter := `{"type":"text","text":"x"}`
	sound := `{"type":"audio","data":"AAE=","mimeType":"audio/wav"}`
	structured := `{"content":[],"structuredContent":"` + strings.Repeat("x", 5000) + `"}`
	for name, encode := range map[string]func([]llm.Reply, *llm.Limits) []json.RawMessage{
		"OpenAI": llm.OpenAIReplies, "Anthropic": llm.AnthropicReplies, "Gemini": llm.GeminiReplies,
	} {
		for _, test := range []struct {
			result string
			limits *llm.Limits
			part   string // of the replies
			most   int    // bytes of the replies
		}{
			{many(long, 1), &llm.Limits{TextBytes: 1001}, strings.Repeat("é", 500) + `%s[1000 more bytes are left out]`, 1400},
			{many(long, 5), &llm.Limits{TextBytes: 2500}, `[7500 more bytes are left out]`, 3000},
			{many(sound, 1000), &llm.Limits{TextBytes: 300}, `more bytes are left out]`, 800},
			{many(image, 3), &llm.Limits{MediaBytes: 2000}, `[image with the type image/png and 750 bytes, which is too large to be shown]`, 3000},
			{many(image, 1), &llm.Limits{MediaBytes: -1}, `[image with the type \"image/png\" and 750 bytes, which cannot be shown]`, 400},
			{structured, &llm.Limits{TextBytes: 1000}, `[4002 more bytes are left out]`, 1400},
			{many(long, 200), nil, `[137856 more bytes are left out]`, 300 << 10},
			{many(image, 6000), &llm.Limits{MediaBlocks: 6000}, `which is too large to be shown]`, 6 << 20},
			{many(image, 3), &llm.Limits{MediaBlocks: 2}, `[image with the type image/png and 750 bytes, which is one too many to be shown]`, 3000},
			{many(image, 6000), nil, `which is one too many to be shown]`, 300 << 10},
			{many(letter, 100_000), nil, `[99000 more bytes are left out]`, 40 << 10},
		} {
			between := `\n`
			if name == "Anthropic" {
				between = `","type":"text"},{"text":"`
			}
			got := list(t, encode(replyOf(t, test.result), test.limits))
			if part := strings.ReplaceAll(test.part, "%s", between); !strings.Contains(got, part) || len(got) > test.most {
				t.Errorf("%s: %.60s…: %d bytes, at most %d are allowed, and %.80q should be in %.2000s", name, test.result, len(got), test.most, part, got)
			}
		}
	}
}
