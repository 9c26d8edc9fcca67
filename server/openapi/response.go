package openapi

import (
	"bytes"
	"context"
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

// A response is the response of a service.
type response struct {
	status  int
	header  http.Header
	media   string
	body    []byte
	data    json.RawMessage // the body, if it is JSON
	uri     string          // of the embedded resource
	secrets secrets         // of the request
}

// readResponse reads the whole body of a success, or as much of an error body as is shown. It
// redacts secrets in an error body.
func readResponse(from *http.Response, limit int64, secrets secrets) (*response, error) {
	r := &response{
		status: from.StatusCode, header: from.Header,
		media: mediaType(from.Header.Get("Content-Type")), secrets: secrets,
	}
	if !r.isSuccess() {
		limit = 2 * maxErrorBody // redacting may shorten it
	}
	var err error
	r.body, err = io.ReadAll(io.LimitReader(from.Body, limit+1))
	truncated := int64(len(r.body)) > limit
	switch {
	case !r.isSuccess():
		text := secrets.redact(string(r.body))
		if truncated {
			text = secrets.trimPartial(text)
		}
		r.body = []byte(text)
		return r, nil
	case err != nil:
		return nil, err
	case truncated:
		return nil, &responseTooLargeError{limit}
	}
	r.data = r.json()
	return r, nil
}

type responseTooLargeError struct{ limit int64 }

func (e *responseTooLargeError) Error() string {
	return fmt.Sprintf("the response is larger than %d bytes: request less", e.limit)
}

func (r *response) isSuccess() bool { return r.status >= 200 && r.status < 300 }

// failure describes an error response, with the beginning of its body.
func (r *response) failure() string {
	text := "the service responded with " + r.summary("Location", "Retry-After", "Allow")
	if !isText(r.media) && r.media != "" {
		return text
	}
	body := strings.TrimSpace(strings.ToValidUTF8(string(r.body), ""))
	if body == "" {
		return text
	}
	return text + "\n" + cut(body, maxErrorBody)
}

// summary returns the status and some headers.
func (r *response) summary(headers ...string) string {
	lines := []string{strings.TrimSpace(fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)))}
	for _, name := range headers {
		if value := strings.ToValidUTF8(r.header.Get(name), ""); value != "" {
			lines = append(lines, name+": "+cut(r.secrets.redact(value), maxTitle))
		}
	}
	return strings.Join(lines, "\n")
}

// json returns the body if it is JSON, or nil.
func (r *response) json() json.RawMessage {
	if !isJSON(r.media) {
		return nil
	}
	text := bytes.TrimSpace(jsonscan.TrimBOM(r.body))
	if jsonscan.Valid(text) != nil {
		return nil
	}
	return text
}

// content returns the body as text, image or audio content, or as an embedded resource.
func (r *response) content() mcp.Content {
	switch {
	case len(r.body) == 0:
		return mcp.Text(r.summary("Location", "Allow", "Content-Type", "Content-Length", "ETag", "Last-Modified"))
	case r.data != nil:
		return mcp.Text(string(r.data))
	case r.isText():
		return mcp.Text(string(r.body))
	case strings.HasPrefix(r.media, "image/"):
		return mcp.Image(r.body, r.media)
	case strings.HasPrefix(r.media, "audio/"):
		return mcp.Audio(r.body, r.media)
	}
	return mcp.Embed(r.contents(r.uri))
}

// contents returns the body as the contents of a resource.
func (r *response) contents(uri string) mcp.ResourceContents {
	if r.isText() {
		return &mcp.TextResourceContents{URI: uri, MIMEType: r.media, Text: string(r.body)}
	}
	return &mcp.BlobResourceContents{URI: uri, MIMEType: r.media, Blob: r.body}
}

func (r *response) isText() bool {
	return (isText(r.media) || r.media == "" || r.media == "message/http") && utf8.Valid(r.body)
}

// result returns the tool result of a response. mismatch says that the response does not match
// the output schema.
func (o *operation) result(ctx context.Context, r *response) (result *mcp.CallToolResult, mismatch error) {
	if !r.isSuccess() {
		return failed(r.failure()), nil
	}
	if o.output != nil {
		if r.data == nil {
			mismatch = errors.New("it is not JSON")
		} else {
			mismatch = o.output.Validate(ctx, r.data)
		}
		if mismatch != nil {
			result = failed(fmt.Sprintf("the call succeeded (%d), but the response does not match the schema in the OpenAPI document: %v", r.status, mismatch))
			result.Content = append(result.Content, r.content())
			return result, mismatch
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{r.content()}, StructuredContent: r.data}, nil
}

// failed returns an error result.
func failed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}, IsError: true}
}
