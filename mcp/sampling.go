package mcp

import (
	"encoding/json"
	"fmt"
)

// CreateMessageParams are the parameters of sampling/createMessage: a server asks the client's
// model. Deprecated by the protocol in 2026-07-28.
type CreateMessageParams struct {
	Messages         []SamplingMessage `json:"messages"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	// SystemPrompt is a suggestion. The client may change or ignore it.
	SystemPrompt string `json:"systemPrompt,omitzero"`
	// IncludeContext is deprecated by the protocol since 2025-11-25.
	IncludeContext IncludeContext `json:"includeContext,omitzero"`
	Temperature    *float64       `json:"temperature,omitzero"`
	// MaxTokens is the maximum number of tokens to sample. Package server sends 1024 for 0.
	MaxTokens     int      `json:"maxTokens"`
	StopSequences []string `json:"stopSequences,omitzero"`
	// Metadata is a JSON object for the provider of the model.
	Metadata json.RawMessage `json:"metadata,omitzero"`
	// Tools are available to the model (since 2025-11-25). The client must have declared
	// sampling.tools.
	Tools []Tool `json:"tools,omitzero"`
	// ToolChoice exists since 2025-11-25.
	ToolChoice *ToolChoice `json:"toolChoice,omitzero"`
	Meta       Meta        `json:"_meta,omitzero"`
	Extra      Extra       `json:",embed"`
}

// SamplingPrompt returns the parameters of a question to the model that has one message of the user, a text.
func SamplingPrompt(text string) *CreateMessageParams {
	return &CreateMessageParams{Messages: []SamplingMessage{{Role: RoleUser, Content: SamplingContent{Text(text)}}}}
}

// A SamplingMessage is one message to or from a model.
type SamplingMessage struct {
	Role    Role            `json:"role"`
	Content SamplingContent `json:"content"`
	// Meta exists since 2025-11-25.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// IncludeContext says which context a client adds to the messages.
type IncludeContext string

// The values of IncludeContext; "" means none.
const (
	IncludeNone       IncludeContext = "none"
	IncludeThisServer IncludeContext = "thisServer"
	IncludeAllServers IncludeContext = "allServers"
)

// ModelPreferences are suggestions for the choice of a model. Priorities are from 0 (unimportant)
// to 1. The client decides.
type ModelPreferences struct {
	// Hints are tried in order. The first that matches a model is used.
	Hints                []ModelHint `json:"hints,omitzero"`
	CostPriority         *float64    `json:"costPriority,omitzero"`
	SpeedPriority        *float64    `json:"speedPriority,omitzero"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitzero"`
	Extra                Extra       `json:",embed"`
}

// A ModelHint names a model or a family of models.
type ModelHint struct {
	// Name is a part of a model's name, such as "sonnet".
	Name  string `json:"name,omitzero"`
	Extra Extra  `json:",embed"`
}

// A ToolChoice says whether the model uses tools (since 2025-11-25).
type ToolChoice struct {
	Mode  ToolChoiceMode `json:"mode,omitzero"`
	Extra Extra          `json:",embed"`
}

// A ToolChoiceMode says whether the model uses tools.
type ToolChoiceMode string

// The modes; "" means auto.
const (
	ToolChoiceAuto     ToolChoiceMode = "auto"
	ToolChoiceRequired ToolChoiceMode = "required"
	ToolChoiceNone     ToolChoiceMode = "none"
)

// A CreateMessageResult is the answer of the client's model.
type CreateMessageResult struct {
	Role    Role            `json:"role"`
	Content SamplingContent `json:"content"`
	// Model is the name of the model.
	Model      string     `json:"model"`
	StopReason StopReason `json:"stopReason,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// Text returns the text of the content, as [ContentList.Text] does.
func (c *CreateMessageResult) Text() string { return ContentList(c.Content).Text() }

// A StopReason says why a model stopped. Models may have other reasons than those below.
type StopReason string

// Common reasons.
const (
	StopEndTurn   StopReason = "endTurn"
	StopSequence  StopReason = "stopSequence"
	StopMaxTokens StopReason = "maxTokens"
	// StopToolUse: the model wants to call tools (since 2025-11-25).
	StopToolUse StopReason = "toolUse"
)

// ValidateSampling checks the tool uses and tool results in messages to a model. A message with
// results is from the user and has only results. It directly follows the message of the assistant
// with the uses, and answers each of them once. Uses in the last message need no results. The error
// names the first invalid message. MCP 2025-11-25, client/sampling, "Message Content Constraints".
func ValidateSampling(messages []SamplingMessage) error {
	var open map[string]bool // tool uses of the message before
	for i := range messages {
		results, uses, err := toolExchange(&messages[i])
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		for _, id := range results {
			if !open[id] {
				return fmt.Errorf("message %d: the tool result %.80q answers no tool use of the message before", i, id)
			}
			delete(open, id)
		}
		for id := range open {
			return fmt.Errorf("message %d: it must answer the tool use %.80q of the message before", i, id)
		}
		open = make(map[string]bool, len(uses))
		for _, id := range uses {
			if open[id] {
				return fmt.Errorf("message %d: two tool uses have the id %.80q", i, id)
			}
			open[id] = true
		}
	}
	return nil
}

// toolExchange returns the ids of a message's tool results and tool uses.
func toolExchange(m *SamplingMessage) (results, uses []string, err error) {
	for _, content := range m.Content {
		switch content := content.(type) {
		case *ToolResultContent:
			results = append(results, content.ToolUseID)
		case *ToolUseContent:
			uses = append(uses, content.ID)
		}
	}
	switch {
	case len(results) > 0 && m.Role != RoleUser:
		return nil, nil, fmt.Errorf("tool results are the user's, not of the %.80q", m.Role)
	case len(results) > 0 && len(results) < len(m.Content):
		return nil, nil, fmt.Errorf("a message with tool results has %d other contents", len(m.Content)-len(results))
	case len(uses) > 0 && m.Role != RoleAssistant:
		return nil, nil, fmt.Errorf("tool uses are the assistant's, not of the %.80q", m.Role)
	}
	return results, uses, nil
}

// A Root is a directory or file that a client has opened to a server. Deprecated by the protocol in
// 2026-07-28.
type Root struct {
	// URI is a file URI.
	URI  string `json:"uri"`
	Name string `json:"name,omitzero"`
	// Meta exists since 2025-06-18.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// A ListRootsResult is a client's answer to roots/list.
type ListRootsResult struct {
	Roots []Root `json:"roots"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}
