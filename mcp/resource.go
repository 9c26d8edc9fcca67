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

// MarshalJSON returns the resource as a JSON object.
func (r Resource) MarshalJSON() ([]byte, error) {
	type fields Resource
	return appendFields(nil, (*fields)(&r))
}

// UnmarshalJSON decodes the resource. The error is a *[DecodeError].
func (r *Resource) UnmarshalJSON(data []byte) error {
	type fields Resource
	return decode(data, (*fields)(r))
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

// MarshalJSON returns the template as a JSON object.
func (r ResourceTemplate) MarshalJSON() ([]byte, error) {
	type fields ResourceTemplate
	return appendFields(nil, (*fields)(&r))
}

// UnmarshalJSON decodes the template. The error is a *[DecodeError].
func (r *ResourceTemplate) UnmarshalJSON(data []byte) error {
	type fields ResourceTemplate
	return decode(data, (*fields)(r))
}

// A ListResourcesResult is one page of a server's resources.
type ListResourcesResult struct {
	Resources []Resource `json:"resources"`
	Page
}

// AppendJSON appends the result as a JSON object.
func (l *ListResourcesResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields ListResourcesResult
	return appendFields(dst, (*fields)(l))
}

// MarshalJSON returns the result as a JSON object.
func (l ListResourcesResult) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (l *ListResourcesResult) UnmarshalJSON(data []byte) error {
	type fields ListResourcesResult
	return decode(data, (*fields)(l))
}

// A ListResourceTemplatesResult is one page of a server's resource templates.
type ListResourceTemplatesResult struct {
	ResourceTemplates []ResourceTemplate `json:"resourceTemplates"`
	Page
}

// AppendJSON appends the result as a JSON object.
func (l *ListResourceTemplatesResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields ListResourceTemplatesResult
	return appendFields(dst, (*fields)(l))
}

// MarshalJSON returns the result as a JSON object.
func (l ListResourceTemplatesResult) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (l *ListResourceTemplatesResult) UnmarshalJSON(data []byte) error {
	type fields ListResourceTemplatesResult
	return decode(data, (*fields)(l))
}

// ReadResourceParams are the parameters of resources/read.
type ReadResourceParams struct {
	URI string `json:"uri"`
	InputAnswers
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (r *ReadResourceParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("uri", r.URI)
	w.answers(r.InputAnswers)
	w.meta(r.Meta)
	return w.close(r.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (r ReadResourceParams) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (r *ReadResourceParams) UnmarshalJSON(data []byte) error {
	type fields ReadResourceParams
	return decode(data, (*fields)(r))
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

// AppendJSON appends the result as a JSON object.
func (r *ReadResourceResult) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	writeList(&w, "contents", r.Contents)
	w.cacheHint(r.CacheHint)
	w.optionalString("resultType", string(r.ResultType))
	w.meta(r.Meta)
	return w.close(r.Extra)
}

// MarshalJSON returns the result as a JSON object.
func (r ReadResourceResult) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (r *ReadResourceResult) UnmarshalJSON(data []byte) error {
	type fields ReadResourceResult
	return decode(data, (*fields)(r))
}

// ResourceContents are the text or binary data of a resource: *[TextResourceContents] or
// *[BlobResourceContents].
type ResourceContents interface {
	Result
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

// AppendJSON appends the contents as a JSON object.
func (t *TextResourceContents) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("uri", t.URI)
	w.optionalString("mimeType", t.MIMEType)
	w.string("text", t.Text)
	w.meta(t.Meta)
	return w.close(t.Extra)
}

// MarshalJSON returns the contents as a JSON object.
func (t TextResourceContents) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON decodes the contents. The error is a *[DecodeError].
func (t *TextResourceContents) UnmarshalJSON(data []byte) error {
	type fields TextResourceContents
	return decode(data, (*fields)(t))
}

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

// AppendJSON appends the contents as a JSON object.
func (b *BlobResourceContents) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("uri", b.URI)
	w.optionalString("mimeType", b.MIMEType)
	w.base64("blob", b.Blob)
	w.meta(b.Meta)
	return w.close(b.Extra)
}

// MarshalJSON returns the contents as a JSON object.
func (b BlobResourceContents) MarshalJSON() ([]byte, error) { return b.AppendJSON(nil) }

// UnmarshalJSON decodes the contents. The error is a *[DecodeError].
func (b *BlobResourceContents) UnmarshalJSON(data []byte) error {
	type fields BlobResourceContents
	return decode(data, (*fields)(b))
}

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
