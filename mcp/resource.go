package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
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
// *[BlobResourceContents]. Contents that cannot be decoded are *[UnknownResourceContents].
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

// UnknownResourceContents are contents that cannot be decoded, for example with neither text nor a blob.
type UnknownResourceContents struct {
	// Raw is the JSON value of the contents.
	Raw json.RawMessage
	// Err is a *[DecodeError] that says why they cannot be decoded. A list is sent without these contents.
	Err error
}

func (*UnknownResourceContents) isResourceContents() {}

// appendJSON appends the contents unchanged.
func (u *UnknownResourceContents) appendJSON(dst []byte) ([]byte, error) {
	if _, err := jsonscan.ReadObject(u.Raw); err != nil {
		return dst, fmt.Errorf("mcp: contents of an unknown form: %w", err)
	}
	return append(dst, u.Raw...), nil
}

// MarshalJSON returns the contents unchanged.
func (u UnknownResourceContents) MarshalJSON() ([]byte, error) { return u.appendJSON(nil) }

// keepResourceContents decodes contents. Of members with the same name, the last one counts.
func keepResourceContents(data []byte) ResourceContents {
	contents, err := orWithLastMembers(data, decodeResourceContents)
	if err != nil {
		return &UnknownResourceContents{Raw: bytes.Clone(data), Err: err}
	}
	return contents
}

// decodeResourceContents decodes contents. The member text or blob that is not null selects the Go type.
func decodeResourceContents(data []byte) (ResourceContents, error) {
	object, err := jsonscan.ReadObject(data)
	if err != nil {
		return nil, objectError(data, err)
	}
	var contents interface {
		ResourceContents
		json.Unmarshaler
	}
	hasText, hasBlob := jsonscan.IsPresent(object.Get("text")), jsonscan.IsPresent(object.Get("blob"))
	absent := "blob"
	switch {
	case hasText == hasBlob:
		return nil, &DecodeError{Expected: "a member text or a member blob", Got: bothOrNeither(hasText)}
	case hasText:
		contents = new(TextResourceContents)
	default:
		contents, absent = new(BlobResourceContents), "text"
	}
	if object.Get(absent) != nil { // null, which is no member of the other type
		if data, err = jsonscan.Splice(nil, data, jsonscan.Edit{Name: absent}); err != nil {
			return nil, syntaxError(err)
		}
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
