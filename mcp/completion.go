package mcp

// CompleteParams are those of completion/complete.
type CompleteParams struct {
	Ref      CompletionReference `json:"ref"`
	Argument CompletionArgument  `json:"argument"`
	// Context is what is known already (since 2025-06-18).
	Context *CompletionContext `json:"context,omitzero"`
	Meta    Meta               `json:"_meta,omitzero"`
	Extra   Extra              `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (c *CompleteParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields CompleteParams
	return appendFields(dst, (*fields)(c))
}

// MarshalJSON returns the parameters as a JSON object.
func (c CompleteParams) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (c *CompleteParams) UnmarshalJSON(data []byte) error {
	type fields CompleteParams
	return decode(data, (*fields)(c))
}

// The types of a [CompletionReference].
const (
	RefPrompt   = "ref/prompt"
	RefResource = "ref/resource"
)

// A CompletionReference names what an argument belongs to: the prompt Name for
// [RefPrompt], the resource or resource template URI for [RefResource].
type CompletionReference struct {
	Type string `json:"type"`
	Name string `json:"name,omitzero"`
	// Title is the prompt's name for people (since 2025-06-18).
	Title string `json:"title,omitzero"`
	URI   string `json:"uri,omitzero"`
	Extra Extra  `json:",embed"`
}

// MarshalJSON returns the reference as a JSON object.
func (c CompletionReference) MarshalJSON() ([]byte, error) {
	type fields CompletionReference
	return appendFields(nil, (*fields)(&c))
}

// UnmarshalJSON decodes the reference. The error is a *[DecodeError].
func (c *CompletionReference) UnmarshalJSON(data []byte) error {
	type fields CompletionReference
	return decode(data, (*fields)(c))
}

// A CompletionArgument is what a person types into.
type CompletionArgument struct {
	Name string `json:"name"`
	// Value is what has been typed so far.
	Value string `json:"value"`
	Extra Extra  `json:",embed"`
}

// MarshalJSON returns the argument as a JSON object.
func (c CompletionArgument) MarshalJSON() ([]byte, error) {
	type fields CompletionArgument
	return appendFields(nil, (*fields)(&c))
}

// UnmarshalJSON decodes the argument. The error is a *[DecodeError].
func (c *CompletionArgument) UnmarshalJSON(data []byte) error {
	type fields CompletionArgument
	return decode(data, (*fields)(c))
}

// A CompletionContext is what is known when an argument is completed (since
// 2025-06-18).
type CompletionContext struct {
	// Arguments are the values of other arguments by their names.
	Arguments map[string]string `json:"arguments,omitzero"`
	Extra     Extra             `json:",embed"`
}

// MarshalJSON returns the context as a JSON object.
func (c CompletionContext) MarshalJSON() ([]byte, error) {
	type fields CompletionContext
	return appendFields(nil, (*fields)(&c))
}

// UnmarshalJSON decodes the context. The error is a *[DecodeError].
func (c *CompletionContext) UnmarshalJSON(data []byte) error {
	type fields CompletionContext
	return decode(data, (*fields)(c))
}

// A CompleteResult is the answer to completion/complete.
type CompleteResult struct {
	Completion CompletionValues `json:"completion"`
	ResultType ResultType       `json:"resultType,omitzero"`
	Meta       Meta             `json:"_meta,omitzero"`
	Extra      Extra            `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (c *CompleteResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields CompleteResult
	return appendFields(dst, (*fields)(c))
}

// MarshalJSON returns the result as a JSON object.
func (c CompleteResult) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (c *CompleteResult) UnmarshalJSON(data []byte) error {
	type fields CompleteResult
	return decode(data, (*fields)(c))
}

// CompletionValues are the values an argument may have.
type CompletionValues struct {
	// Values are at most 100.
	Values []string `json:"values"`
	// Total is how many there are, nil if unknown.
	Total *int `json:"total,omitzero"`
	// HasMore: there are more than Values.
	HasMore bool  `json:"hasMore,omitzero"`
	Extra   Extra `json:",embed"`
}

// MarshalJSON returns the values as a JSON object.
func (c CompletionValues) MarshalJSON() ([]byte, error) {
	type fields CompletionValues
	return appendFields(nil, (*fields)(&c))
}

// UnmarshalJSON decodes the values. The error is a *[DecodeError].
func (c *CompletionValues) UnmarshalJSON(data []byte) error {
	type fields CompletionValues
	return decode(data, (*fields)(c))
}
