package mcp

import (
	"encoding/json"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Resource is something that a client can read, as it is listed.
type Resource struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
	// Title is shown to people (since 2025-06-18).
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	MIMEType    string `json:"mimeType,omitzero"`
	// Size is the length of the content in bytes before encoding, or nil if it is unknown.
	Size        *int64       `json:"size,omitzero"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Icons are shown in user interfaces (since 2025-11-25).
	Icons []Icon `json:"icons,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// A ResourceTemplate is a set of resources, as it is listed.
type ResourceTemplate struct {
	// URITemplate is an RFC 6570 template.
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	// Title is shown to people (since 2025-06-18).
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// MIMEType is the media type of all resources of the template, or "" if they differ.
	MIMEType    string       `json:"mimeType,omitzero"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Icons are shown in user interfaces (since 2025-11-25).
	Icons []Icon `json:"icons,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// A ListResourcesResult is one page of a server's resources.
type ListResourcesResult struct {
	Resources []Resource `json:"resources"`
	Page
}

// A ListResourceTemplatesResult is one page of a server's resource templates.
type ListResourceTemplatesResult struct {
	ResourceTemplates []ResourceTemplate `json:"resourceTemplates"`
	Page
}

// ReadResourceParams are the parameters of resources/read.
type ReadResourceParams struct {
	URI string `json:"uri"`
	InputAnswers
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// A ReadResourceResult has the contents of a resource. There may be several, for example the files
// of a directory.
type ReadResourceResult struct {
	Contents []ResourceContents `json:"contents"`
	CacheHint
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// Text returns the contents that are text, joined by line breaks. It leaves out binary contents.
func (r *ReadResourceResult) Text() string {
	texts := make([]string, 0, len(r.Contents))
	for _, contents := range r.Contents {
		if text, ok := contents.(*TextResourceContents); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// ResourceContents are the text or binary data of a resource: *[TextResourceContents] or
// *[BlobResourceContents].
type ResourceContents interface {
	json.Marshaler
	appender
	isResourceContents()
}

// TextResourceContents are text.
type TextResourceContents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitzero"`
	Text     string `json:"text"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

func (*TextResourceContents) isResourceContents() {}

// BlobResourceContents are binary data.
type BlobResourceContents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitzero"`
	// Blob is the data, which is sent in base64.
	Blob []byte `json:"blob"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

func (*BlobResourceContents) isResourceContents() {}

// decodeResourceContents decodes contents. The member text or blob selects the Go type.
func decodeResourceContents(data []byte) (ResourceContents, error) {
	object, err := jsonscan.ReadObject(data)
	if err != nil {
		return nil, objectError(data, err)
	}
	hasText, hasBlob := object.Get("text") != nil, object.Get("blob") != nil
	if hasText == hasBlob {
		return nil, &DecodeError{Expected: "a member text or a member blob", Got: bothOrNeither(hasText)}
	}
	var contents interface {
		ResourceContents
		json.Unmarshaler
	} = new(TextResourceContents)
	if hasBlob {
		contents = new(BlobResourceContents)
	}
	if err := contents.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return contents, nil
}

func bothOrNeither(both bool) string {
	if both {
		return "both"
	}
	return "neither"
}
