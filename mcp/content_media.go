package mcp

// TextContent is text.
type TextContent struct {
	Text        string       `json:"text"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Text returns a block of text.
func Text(text string) *TextContent { return &TextContent{Text: text} }

func (*TextContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (t *TextContent) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeText)
	w.string("text", t.Text)
	optional(&w, "annotations", t.Annotations)
	w.meta(t.Meta)
	return w.close(t.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (t TextContent) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (t *TextContent) UnmarshalJSON(data []byte) error {
	type fields TextContent
	return decodeTyped(data, (*fields)(t))
}

// ImageContent is a picture.
type ImageContent struct {
	// Data is the picture itself; on the wire it is in base64.
	Data        []byte       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Image returns a block that holds a picture. The data is kept, not copied.
func Image(data []byte, mimeType string) *ImageContent {
	return &ImageContent{Data: data, MIMEType: mimeType}
}

func (*ImageContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (i *ImageContent) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeImage)
	w.base64("data", i.Data)
	w.string("mimeType", i.MIMEType)
	optional(&w, "annotations", i.Annotations)
	w.meta(i.Meta)
	return w.close(i.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (i ImageContent) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (i *ImageContent) UnmarshalJSON(data []byte) error {
	type fields ImageContent
	return decodeTyped(data, (*fields)(i))
}

// AudioContent is sound (since 2025-03-26).
type AudioContent struct {
	// Data is the sound itself; on the wire it is in base64.
	Data        []byte       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Audio returns a block that holds sound. The data is kept, not copied.
func Audio(data []byte, mimeType string) *AudioContent {
	return &AudioContent{Data: data, MIMEType: mimeType}
}

func (*AudioContent) isContent() {}

// AppendJSON appends the block as a JSON object.
func (a *AudioContent) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeAudio)
	w.base64("data", a.Data)
	w.string("mimeType", a.MIMEType)
	optional(&w, "annotations", a.Annotations)
	w.meta(a.Meta)
	return w.close(a.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (a AudioContent) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (a *AudioContent) UnmarshalJSON(data []byte) error {
	type fields AudioContent
	return decodeTyped(data, (*fields)(a))
}
