package mcp

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// ReadResourceParams are those of resources/read.
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

// A ReadResourceResult is what a resource holds. Several contents are, for
// example, those of a directory's files.
type ReadResourceResult struct {
	Contents []ResourceContents `json:"contents"`
	CacheHint
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
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

// ResourceContents are text or binary data of a resource:
// *[TextResourceContents] or *[BlobResourceContents].
type ResourceContents interface {
	Result
	isResourceContents()
}

// TextResourceContents are text of a resource.
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

// BlobResourceContents are binary data of a resource.
type BlobResourceContents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitzero"`
	// Blob is the data itself; on the wire it is in base64.
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

// decodeResourceContents tells the kinds apart by the member that holds the
// data.
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
