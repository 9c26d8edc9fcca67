package mcp

// A Prompt is a template for messages to a model, as it is listed.
type Prompt struct {
	Name string `json:"name"`
	// Title is shown to people (since 2025-06-18).
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	Arguments   []PromptArgument `json:"arguments,omitzero"`
	// Icons are shown in user interfaces (since 2025-11-25).
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

// A PromptArgument is an argument of a prompt. Its value is a string.
type PromptArgument struct {
	Name string `json:"name"`
	// Title is shown to people (since 2025-06-18).
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
	return decode(data, (*fields)(l))
}

// GetPromptParams are the parameters of prompts/get.
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

// A GetPromptResult has the messages of a prompt.
type GetPromptResult struct {
	Description string          `json:"description,omitzero"`
	Messages    []PromptMessage `json:"messages"`
	ResultType  ResultType      `json:"resultType,omitzero"`
	Meta        Meta            `json:"_meta,omitzero"`
	Extra       Extra           `json:",embed"`
}

// Text returns the text of the messages whose content is text, joined by line breaks. It leaves
// out all other messages.
func (g *GetPromptResult) Text() string {
	contents := make(ContentList, len(g.Messages))
	for i, message := range g.Messages {
		contents[i] = message.Content
	}
	return contents.Text()
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

// CompleteParams are the parameters of completion/complete.
type CompleteParams struct {
	Ref      CompletionReference `json:"ref"`
	Argument CompletionArgument  `json:"argument"`
	// Context has other arguments (since 2025-06-18).
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

// A CompletionReference names the prompt ([RefPrompt], Name) or the resource template
// ([RefResource], URI) that an argument belongs to.
type CompletionReference struct {
	Type string `json:"type"`
	Name string `json:"name,omitzero"`
	// Title is the title of the prompt (since 2025-06-18).
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

// A CompletionArgument is the argument to complete.
type CompletionArgument struct {
	Name string `json:"name"`
	// Value is what the user has typed.
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

// A CompletionContext has the values of other arguments (since 2025-06-18).
type CompletionContext struct {
	// Arguments are values by name.
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

// CompletionValues are possible values of an argument.
type CompletionValues struct {
	// Values has at most 100 values.
	Values []string `json:"values"`
	// Total is the number of all values, or nil if it is unknown.
	Total *int `json:"total,omitzero"`
	// HasMore: there are more values than Values.
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
