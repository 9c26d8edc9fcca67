package mcp

// A Resource is something a client can read, as it stands in a list.
type Resource struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
	// Title is the name for people (since 2025-06-18).
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	MIMEType    string `json:"mimeType,omitzero"`
	// Size is the content's length in bytes before encoding, nil if unknown.
	Size        *int64       `json:"size,omitzero"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Icons are pictures for a user interface (since 2025-11-25).
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

func (r *Resource) field(name []byte) any {
	switch string(name) {
	case "uri":
		return &r.URI
	case "name":
		return &r.Name
	case "title":
		return &r.Title
	case "description":
		return &r.Description
	case "mimeType":
		return &r.MIMEType
	case "size":
		return &r.Size
	case "annotations":
		return &r.Annotations
	case "icons":
		return &r.Icons
	case "_meta":
		return &r.Meta
	}
	return &r.Extra
}

// A ResourceTemplate is a family of resources, as it stands in a list.
type ResourceTemplate struct {
	// URITemplate is an RFC 6570 template.
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	// Title is the name for people (since 2025-06-18).
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// MIMEType is that of all resources of the family, "" if they differ.
	MIMEType    string       `json:"mimeType,omitzero"`
	Annotations *Annotations `json:"annotations,omitzero"`
	// Icons are pictures for a user interface (since 2025-11-25).
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

func (r *ResourceTemplate) field(name []byte) any {
	switch string(name) {
	case "uriTemplate":
		return &r.URITemplate
	case "name":
		return &r.Name
	case "title":
		return &r.Title
	case "description":
		return &r.Description
	case "mimeType":
		return &r.MIMEType
	case "annotations":
		return &r.Annotations
	case "icons":
		return &r.Icons
	case "_meta":
		return &r.Meta
	}
	return &r.Extra
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
	return decodeList(data, "resources", &l.Resources, (*fields)(l))
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
	return decodeList(data, "resourceTemplates", &l.ResourceTemplates, (*fields)(l))
}
