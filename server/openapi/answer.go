package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// An answer is what a service said.
type answer struct {
	status  int
	header  http.Header
	media   string
	body    []byte
	data    json.RawMessage // the body, if it is JSON
	uri     string          // names what came back
	secrets secrets         // of the request
}

// readAnswer reads a response: the body of a success whole, that of a failure as far
// as it is shown, without secrets.
func readAnswer(response *http.Response, limit int64, secrets secrets) (*answer, error) {
	a := &answer{
		status: response.StatusCode, header: response.Header,
		media: mediaType(response.Header.Get("Content-Type")), secrets: secrets,
	}
	if !a.isSuccess() {
		limit = 2 * maxErrorBody // more than is shown, since redacting may make it shorter
	}
	var err error
	a.body, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	isCut := int64(len(a.body)) > limit
	switch {
	case !a.isSuccess():
		text := secrets.redact(string(a.body))
		if isCut {
			text = secrets.dropEnd(text)
		}
		a.body = []byte(text)
		return a, nil
	case err != nil:
		return nil, err
	case isCut:
		return nil, &tooLargeError{limit}
	}
	a.data = a.json()
	return a, nil
}

type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the service's answer is larger than %d bytes: ask for less", e.limit)
}

func (a *answer) isSuccess() bool { return a.status >= 200 && a.status < 300 }

// failure describes an answer that is no success, with as much of its body as fits.
func (a *answer) failure() string {
	text := "the service answered " + a.summary("Location", "Retry-After", "Allow")
	if !isText(a.media) && a.media != "" {
		return text
	}
	body := strings.TrimSpace(strings.ToValidUTF8(string(a.body), ""))
	if body == "" {
		return text
	}
	return text + "\n" + cut(body, maxErrorBody)
}

// summary is the status, and what some headers say.
func (a *answer) summary(headers ...string) string {
	lines := []string{strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))}
	for _, name := range headers {
		if value := strings.ToValidUTF8(a.header.Get(name), ""); value != "" {
			lines = append(lines, name+": "+cut(a.secrets.redact(value), maxTitle))
		}
	}
	return strings.Join(lines, "\n")
}

// json is the body, if it is JSON.
func (a *answer) json() json.RawMessage {
	if !isJSON(a.media) {
		return nil
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(a.body, []byte("\xef\xbb\xbf")))
	if jsonscan.Valid(text) != nil {
		return nil
	}
	return text
}

// content is the body as a model can read it: text as text, pictures and sound as such,
// other bytes as an embedded resource.
func (a *answer) content() mcp.Content {
	switch {
	case len(a.body) == 0:
		return mcp.Text(a.summary("Location", "Allow", "Content-Type", "Content-Length", "ETag", "Last-Modified"))
	case a.data != nil:
		return mcp.Text(string(a.data))
	case a.isText():
		return mcp.Text(string(a.body))
	case strings.HasPrefix(a.media, "image/"):
		return mcp.Image(a.body, a.media)
	case strings.HasPrefix(a.media, "audio/"):
		return mcp.Audio(a.body, a.media)
	}
	return mcp.Embed(a.contents(a.uri))
}

// contents is the body as the contents of a resource.
func (a *answer) contents(uri string) mcp.ResourceContents {
	if a.isText() {
		return &mcp.TextResourceContents{URI: uri, MIMEType: a.media, Text: string(a.body)}
	}
	return &mcp.BlobResourceContents{URI: uri, MIMEType: a.media, Blob: a.body}
}

func (a *answer) isText() bool {
	return (isText(a.media) || a.media == "" || a.media == "message/http") && utf8.Valid(a.body)
}

// result is the answer of an operation as a tool's result.
func (o *operation) result(a *answer) (result *mcp.CallToolResult, mismatch error) {
	if !a.isSuccess() {
		return failed(a.failure()), nil
	}
	if o.output != nil {
		if a.data == nil {
			mismatch = errors.New("it is not JSON")
		} else {
			mismatch = o.output.Validate(a.data)
		}
		if mismatch != nil {
			result = failed(fmt.Sprintf("the call succeeded (%d), but the answer does not fit the schema in the service's document: %v", a.status, mismatch))
			result.Content = append(result.Content, a.content())
			return result, mismatch
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{a.content()}, StructuredContent: a.data}, nil
}

// failed is an error that the model sees.
func failed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}, IsError: true}
}
