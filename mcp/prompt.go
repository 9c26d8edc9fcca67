package mcp

// A Prompt is a template for messages to a model, as it stands in a list.
type Prompt struct {
	Name string `json:"name"`
	// Title is the name for people (since 2025-06-18).
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	Arguments   []PromptArgument `json:"arguments,omitzero"`
	// Icons are pictures for a user interface (since 2025-11-25).
	Icons []Icon `json:"icons,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// MarshalJSON returns the prompt as a JSON object.
func (p Prompt) MarshalJSON() ([]byte, error) {
	type fields Prompt
	return appendFields(nil, (*fields)(&p))
}

// UnmarshalJSON decodes the prompt. The error is a *[DecodeError].
func (p *Prompt) UnmarshalJSON(data []byte) error {
	type fields Prompt
	return decode(data, (*fields)(p))
}

func (p *Prompt) field(name []byte) any {
	switch string(name) {
	case "name":
		return &p.Name
	case "title":
		return &p.Title
	case "description":
		return &p.Description
	case "arguments":
		return &p.Arguments
	case "icons":
		return &p.Icons
	case "_meta":
		return &p.Meta
	}
	return &p.Extra
}

// A PromptArgument is something a prompt wants to be told. Its value is a
// string.
type PromptArgument struct {
	Name string `json:"name"`
	// Title is the name for people (since 2025-06-18).
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
	Extra       Extra  `json:",embed"`
}

// MarshalJSON returns the argument as a JSON object.
func (p PromptArgument) MarshalJSON() ([]byte, error) {
	type fields PromptArgument
	return appendFields(nil, (*fields)(&p))
}

// UnmarshalJSON decodes the argument. The error is a *[DecodeError].
func (p *PromptArgument) UnmarshalJSON(data []byte) error {
	type fields PromptArgument
	return decode(data, (*fields)(p))
}

// A ListPromptsResult is one page of a server's prompts.
type ListPromptsResult struct {
	Prompts []Prompt `json:"prompts"`
	Page
}

// AppendJSON appends the result as a JSON object.
func (l *ListPromptsResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields ListPromptsResult
	return appendFields(dst, (*fields)(l))
}

// MarshalJSON returns the result as a JSON object.
func (l ListPromptsResult) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (l *ListPromptsResult) UnmarshalJSON(data []byte) error {
	type fields ListPromptsResult
	return decodeList(data, "prompts", &l.Prompts, (*fields)(l))
}

// GetPromptParams are those of prompts/get.
type GetPromptParams struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitzero"`
	InputAnswers
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (g *GetPromptParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("name", g.Name)
	w.optionalStringMap("arguments", g.Arguments)
	w.answers(g.InputAnswers)
	w.meta(g.Meta)
	return w.close(g.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (g GetPromptParams) MarshalJSON() ([]byte, error) { return g.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (g *GetPromptParams) UnmarshalJSON(data []byte) error {
	type fields GetPromptParams
	return decode(data, (*fields)(g))
}

// A GetPromptResult is a prompt with its arguments filled in.
type GetPromptResult struct {
	Description string          `json:"description,omitzero"`
	Messages    []PromptMessage `json:"messages"`
	ResultType  ResultType      `json:"resultType,omitzero"`
	Meta        Meta            `json:"_meta,omitzero"`
	Extra       Extra           `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (g *GetPromptResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields GetPromptResult
	return appendFields(dst, (*fields)(g))
}

// MarshalJSON returns the result as a JSON object.
func (g GetPromptResult) MarshalJSON() ([]byte, error) { return g.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (g *GetPromptResult) UnmarshalJSON(data []byte) error {
	type fields GetPromptResult
	return decode(data, (*fields)(g))
}

// A PromptMessage is one message of a prompt. Its content is one block.
type PromptMessage struct {
	Role    Role    `json:"role"`
	Content Content `json:"content"`
	Extra   Extra   `json:",embed"`
}

// AppendJSON appends the message as a JSON object.
func (p *PromptMessage) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("role", string(p.Role))
	w.object("content", p.Content)
	return w.close(p.Extra)
}

// MarshalJSON returns the message as a JSON object.
func (p PromptMessage) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// UnmarshalJSON decodes the message. The error is a *[DecodeError].
func (p *PromptMessage) UnmarshalJSON(data []byte) error {
	type fields PromptMessage
	return decode(data, (*fields)(p))
}
