package mcp

// A ResourceLink points to a resource that the client can read (since
// 2025-06-18). The resource need not be in a list.
type ResourceLink Resource

// Link returns a block that points to the resource.
func (r *Resource) Link() *ResourceLink {
	link := ResourceLink(*r)
	return &link
}

func (*ResourceLink) isContent() {}

// AppendJSON appends the block as a JSON object.
func (r *ResourceLink) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeResourceLink)
	w.string("uri", r.URI)
	w.string("name", r.Name)
	w.optionalString("title", r.Title)
	w.optionalString("description", r.Description)
	w.optionalString("mimeType", r.MIMEType)
	if r.Size != nil {
		w.integer("size", *r.Size)
	}
	optional(&w, "annotations", r.Annotations)
	w.icons(r.Icons)
	w.meta(r.Meta)
	return w.close(r.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (r ResourceLink) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (r *ResourceLink) UnmarshalJSON(data []byte) error {
	type fields ResourceLink
	return decodeTyped(data, (*fields)(r))
}

// An EmbeddedResource is a resource together with what it holds.
type EmbeddedResource struct {
	Resource    ResourceContents `json:"resource"`
	Annotations *Annotations     `json:"annotations,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// Embed returns a block that holds a resource's contents.
func Embed(contents ResourceContents) *EmbeddedResource {
	return &EmbeddedResource{Resource: contents}
}

func (*EmbeddedResource) isContent() {}

// AppendJSON appends the block as a JSON object.
func (e *EmbeddedResource) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("type", typeResource)
	w.object("resource", e.Resource)
	optional(&w, "annotations", e.Annotations)
	w.meta(e.Meta)
	return w.close(e.Extra)
}

// MarshalJSON returns the block as a JSON object.
func (e EmbeddedResource) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the block. The error is a *[DecodeError].
func (e *EmbeddedResource) UnmarshalJSON(data []byte) error {
	type fields EmbeddedResource
	return decodeTyped(data, (*fields)(e))
}
