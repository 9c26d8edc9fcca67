package llm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Limits bound a reply to a model. nil and the zero value have the defaults.
type Limits struct {
	// TextBytes bounds the text of a reply, which also has at most 1,000 blocks. What exceeds either is cut, and the text
	// then says so. Default: 256 KiB.
	TextBytes int
	// MediaBytes bounds the images and documents of a reply, in base64. A text replaces each that exceeds the rest.
	// Negative: none, for models that read only text. Default: 5 MiB.
	MediaBytes int
	// MediaBlocks bounds the number of images and documents of a reply. A text replaces each further one. Default: 20.
	MediaBlocks int
}

// maxTexts bounds the blocks of text, since each has a size of its own in the request of an API.
const maxTexts = 1000

func (l *Limits) withDefaults() Limits {
	var limits Limits
	if l != nil {
		limits = *l
	}
	if limits.TextBytes <= 0 {
		limits.TextBytes = 256 << 10
	}
	if limits.MediaBytes == 0 {
		limits.MediaBytes = 5 << 20
	}
	if limits.MediaBlocks <= 0 {
		limits.MediaBlocks = 20
	}
	return limits
}

// OpenAIReplies returns the messages that follow an answer with calls in the Chat Completions API of OpenAI: a message
// with the role tool for each call, and then, since these hold only text, a message with the role user for each result
// with images (PNG, JPEG, GIF, WebP) or PDF documents. The replies must be those to all calls of the answer. A failure
// is {"error": text}.
//
// All other blocks become text: embedded text as it is, links and unknown blocks as JSON, and other data as a note of
// its type and size. Structured content is sent if there is no other. limits may be nil.
//
// https://platform.openai.com/docs/api-reference/chat/create
func OpenAIReplies(replies []Reply, limits *Limits) []json.RawMessage {
	var messages, media []json.RawMessage
	for _, reply := range replies {
		texts, files := split(partsOf(reply.Result, limits, imageTypes, pdfType))
		if len(files) > 0 {
			texts = append(texts, fmt.Sprintf("[The next message of the user has %d images or documents of this result.]", len(files)))
		}
		text := strings.Join(texts, "\n")
		if reply.Result.IsError {
			text = string(encode(object{"error": text}))
		}
		messages = append(messages, encode(object{"role": "tool", "tool_call_id": reply.Call.ID, "content": text}))
		if len(files) == 0 {
			continue
		}
		content := []any{object{"type": "text", "text": "From the result of " + reply.Call.Name + ", call " + reply.Call.ID + ":"}}
		for _, file := range files {
			url := "data:" + file.mimeType + ";base64," + file.base64()
			if file.mimeType == pdfType {
				content = append(content, object{"type": "file", "file": object{"filename": file.name, "file_data": url}})
				continue
			}
			content = append(content, object{"type": "image_url", "image_url": object{"url": url}})
		}
		media = append(media, encode(object{"role": "user", "content": content}))
	}
	return append(messages, media...)
}

// AnthropicReplies returns the content of the message, with the role user, that follows an answer with calls in the
// Messages API of Anthropic: a block tool_result for each call. Images (PNG, JPEG, GIF, WebP) and PDF documents are
// blocks in it. For other blocks and limits see [OpenAIReplies].
//
// https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use
func AnthropicReplies(replies []Reply, limits *Limits) []json.RawMessage {
	blocks := make([]json.RawMessage, len(replies))
	for i, reply := range replies {
		content := []any{}
		for _, p := range partsOf(reply.Result, limits, imageTypes, pdfType) {
			if p.mimeType == "" {
				content = append(content, object{"type": "text", "text": p.text})
				continue
			}
			kind := "image"
			if p.mimeType == pdfType {
				kind = "document"
			}
			source := object{"type": "base64", "media_type": p.mimeType, "data": p.base64()}
			content = append(content, object{"type": kind, "source": source})
		}
		block := object{"type": "tool_result", "tool_use_id": reply.Call.ID, "content": content}
		if reply.Result.IsError {
			block["is_error"] = true
		}
		blocks[i] = encode(block)
	}
	return blocks
}

// GeminiReplies returns the parts of the content, with the role user, that follows an answer with calls in the Gemini
// API: a functionResponse for each call. Its response is {"output": value}, the structured content or else the text, or
// {"error": text}. Images (PNG, JPEG, WebP) and PDF documents are parts of the functionResponse, which models before
// Gemini 3 do not read. For other blocks and limits see [OpenAIReplies].
//
// https://ai.google.dev/gemini-api/docs/function-calling
func GeminiReplies(replies []Reply, limits *Limits) []json.RawMessage {
	parts := make([]json.RawMessage, len(replies))
	for i, reply := range replies {
		texts, files := split(partsOf(reply.Result, limits, geminiImageTypes, pdfType))
		outcome, value := "output", any(strings.Join(texts, "\n"))
		structured := reply.Result.StructuredContent
		switch {
		case reply.Result.IsError:
			outcome = "error"
		case structured != nil && len(structured) <= limits.withDefaults().TextBytes && jsonscan.Valid(structured) == nil:
			value = structured
		}
		function := object{"name": reply.Call.Name, "response": object{outcome: value}}
		if reply.Call.ID != "" {
			function["id"] = reply.Call.ID
		}
		var media []any
		for _, file := range files {
			media = append(media, object{"inlineData": object{"mimeType": file.mimeType, "data": file.base64()}})
		}
		if media != nil {
			function["parts"] = media
		}
		parts[i] = encode(object{"functionResponse": function})
	}
	return parts
}

// An object is a JSON object of strings, lists, objects and valid JSON.
type object map[string]any

func encode(o object) json.RawMessage {
	encoded, err := json.Marshal(o)
	if err != nil {
		panic(err) // not possible for these values
	}
	return encoded
}

const (
	imageTypes       = "image/png image/jpeg image/gif image/webp"
	geminiImageTypes = "image/png image/jpeg image/webp"
	pdfType          = "application/pdf"
)

// A part is text, or a file of a type that the API reads.
type part struct {
	text     string
	mimeType string // "" for text
	name     string // of the file
	data     []byte
}

func (p *part) base64() string { return base64.StdEncoding.EncodeToString(p.data) }

// split returns the texts and the files.
func split(parts []part) (texts []string, files []part) {
	for _, p := range parts {
		if p.mimeType == "" {
			texts = append(texts, p.text)
		} else {
			files = append(files, p)
		}
	}
	return texts, files
}

// A converter makes the parts of one result.
type converter struct {
	types   []string // of files that the API reads
	left    Limits   // what the reply may still have
	texts   int      // parts that are text
	omitted int      // bytes of text
	parts   []part
}

// partsOf returns the parts of a result in the order of its blocks. types are lists of the files that the API reads.
func partsOf(result *mcp.CallToolResult, limits *Limits, types ...string) []part {
	c := &converter{types: strings.Fields(strings.Join(types, " ")), left: limits.withDefaults()}
	for _, block := range result.Content {
		c.addBlock(block)
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		c.addText(string(result.StructuredContent))
	}
	if c.omitted > 0 {
		c.parts = append(c.parts, part{text: fmt.Sprintf("[%d more bytes are left out]", c.omitted)})
	}
	return c.parts
}

func (c *converter) addBlock(block mcp.Content) {
	switch block := block.(type) {
	case *mcp.TextContent:
		c.addText(block.Text)
		return
	case *mcp.ImageContent:
		c.addFile(block.MIMEType, "image", block.Data)
		return
	case *mcp.AudioContent:
		c.addFile(block.MIMEType, "audio", block.Data)
		return
	case *mcp.EmbeddedResource:
		switch contents := block.Resource.(type) {
		case *mcp.TextResourceContents:
			c.addText(contents.URI + ":\n" + contents.Text)
			return
		case *mcp.BlobResourceContents:
			c.addFile(contents.MIMEType, path.Base(contents.URI), contents.Blob)
			return
		}
	}
	text, err := block.MarshalJSON()
	if err != nil {
		text = fmt.Appendf(nil, "[a block that cannot be read: %v]", err)
	}
	c.addText(string(text))
}

// addText adds text, or the part of it that the limit permits.
func (c *converter) addText(text string) {
	kept := text
	if c.texts == maxTexts {
		c.left.TextBytes = 0
	}
	if len(text) > c.left.TextBytes {
		end := c.left.TextBytes
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		kept, c.left.TextBytes = text[:end], 0
		c.omitted += len(text) - end
	} else {
		c.left.TextBytes -= len(text)
	}
	if kept != "" {
		c.texts++
		c.parts = append(c.parts, part{text: kept})
	}
}

// addFile adds data if the API reads its type and the limit permits it, and otherwise a note. Data of a text type is added
// as text.
func (c *converter) addFile(mimeType, name string, data []byte) {
	kind, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		kind = ""
	}
	if kind == "image/jpg" {
		kind = "image/jpeg"
	}
	name = fmt.Sprintf("%.256s", name) // the server has chosen it
	size := base64.StdEncoding.EncodedLen(len(data))
	switch {
	case strings.HasPrefix(kind, "text/") && utf8.Valid(data):
		c.addText(name + ":\n" + string(data))
	case !slices.Contains(c.types, kind) || c.left.MediaBytes < 0 || len(data) == 0:
		c.addText(fmt.Sprintf("[%s with the type %.80q and %d bytes, which cannot be shown]", name, mimeType, len(data)))
	case size > c.left.MediaBytes:
		c.addText(fmt.Sprintf("[%s with the type %s and %d bytes, which is too large to be shown]", name, kind, len(data)))
	case c.left.MediaBlocks == 0:
		c.addText(fmt.Sprintf("[%s with the type %s and %d bytes, which is one too many to be shown]", name, kind, len(data)))
	default:
		c.left.MediaBytes -= size
		c.left.MediaBlocks--
		c.parts = append(c.parts, part{mimeType: kind, name: name, data: data})
	}
}
