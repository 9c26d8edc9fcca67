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

// A PromptArgument is an argument of a prompt. Its value is a string.
type PromptArgument struct {
	Name string `json:"name"`
	// Title is shown to people (since 2025-06-18).
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
	Extra       Extra  `json:",embed"`
}

// A ListPromptsResult is one page of a server's prompts.
type ListPromptsResult struct {
	Prompts []Prompt `json:"prompts"`
	Page
}

// GetPromptParams are the parameters of prompts/get.
type GetPromptParams struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitzero"`
	InputAnswers
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
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

// A PromptMessage is one message of a prompt. Its content is one block.
type PromptMessage struct {
	Role    Role    `json:"role"`
	Content Content `json:"content"`
	Extra   Extra   `json:",embed"`
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

// A CompletionArgument is the argument to complete.
type CompletionArgument struct {
	Name string `json:"name"`
	// Value is what the user has typed.
	Value string `json:"value"`
	Extra Extra  `json:",embed"`
}

// A CompletionContext has the values of other arguments (since 2025-06-18).
type CompletionContext struct {
	// Arguments are values by name.
	Arguments map[string]string `json:"arguments,omitzero"`
	Extra     Extra             `json:",embed"`
}

// A CompleteResult is the answer to completion/complete.
type CompleteResult struct {
	Completion CompletionValues `json:"completion"`
	ResultType ResultType       `json:"resultType,omitzero"`
	Meta       Meta             `json:"_meta,omitzero"`
	Extra      Extra            `json:",embed"`
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
