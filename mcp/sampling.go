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
	// MaxTokens is the maximum number of tokens to sample.
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

// AppendJSON appends the parameters as a JSON object.
func (c *CreateMessageParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields CreateMessageParams
	return appendFields(dst, (*fields)(c))
}

// MarshalJSON returns the parameters as a JSON object.
func (c CreateMessageParams) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (c *CreateMessageParams) UnmarshalJSON(data []byte) error {
	type fields CreateMessageParams
	return decode(data, (*fields)(c))
}

// A SamplingMessage is one message to or from a model.
type SamplingMessage struct {
	Role    Role            `json:"role"`
	Content SamplingContent `json:"content"`
	// Meta exists since 2025-11-25.
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// MarshalJSON returns the message as a JSON object.
func (s SamplingMessage) MarshalJSON() ([]byte, error) {
	type fields SamplingMessage
	return appendFields(nil, (*fields)(&s))
}

// UnmarshalJSON decodes the message. The error is a *[DecodeError].
func (s *SamplingMessage) UnmarshalJSON(data []byte) error {
	type fields SamplingMessage
	return decode(data, (*fields)(s))
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

// MarshalJSON returns the preferences as a JSON object.
func (m ModelPreferences) MarshalJSON() ([]byte, error) {
	type fields ModelPreferences
	return appendFields(nil, (*fields)(&m))
}

// UnmarshalJSON decodes the preferences. The error is a *[DecodeError].
func (m *ModelPreferences) UnmarshalJSON(data []byte) error {
	type fields ModelPreferences
	return decode(data, (*fields)(m))
}

// A ModelHint names a model or a family of models.
type ModelHint struct {
	// Name is a part of a model's name, such as "sonnet".
	Name  string `json:"name,omitzero"`
	Extra Extra  `json:",embed"`
}

// MarshalJSON returns the hint as a JSON object.
func (m ModelHint) MarshalJSON() ([]byte, error) {
	type fields ModelHint
	return appendFields(nil, (*fields)(&m))
}

// UnmarshalJSON decodes the hint. The error is a *[DecodeError].
func (m *ModelHint) UnmarshalJSON(data []byte) error {
	type fields ModelHint
	return decode(data, (*fields)(m))
}

// A ToolChoice says whether the model uses tools (since 2025-11-25).
type ToolChoice struct {
	Mode  ToolChoiceMode `json:"mode,omitzero"`
	Extra Extra          `json:",embed"`
}

// MarshalJSON returns the choice as a JSON object.
func (t ToolChoice) MarshalJSON() ([]byte, error) {
	type fields ToolChoice
	return appendFields(nil, (*fields)(&t))
}

// UnmarshalJSON decodes the choice. The error is a *[DecodeError].
func (t *ToolChoice) UnmarshalJSON(data []byte) error {
	type fields ToolChoice
	return decode(data, (*fields)(t))
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

// AppendJSON appends the result as a JSON object.
func (c *CreateMessageResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields CreateMessageResult
	return appendFields(dst, (*fields)(c))
}

// MarshalJSON returns the result as a JSON object.
func (c CreateMessageResult) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (c *CreateMessageResult) UnmarshalJSON(data []byte) error {
	type fields CreateMessageResult
	return decode(data, (*fields)(c))
}

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

// MarshalJSON returns the root as a JSON object.
func (r Root) MarshalJSON() ([]byte, error) {
	type fields Root
	return appendFields(nil, (*fields)(&r))
}

// UnmarshalJSON decodes the root. The error is a *[DecodeError].
func (r *Root) UnmarshalJSON(data []byte) error {
	type fields Root
	return decode(data, (*fields)(r))
}

// A ListRootsResult is a client's answer to roots/list.
type ListRootsResult struct {
	Roots []Root `json:"roots"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (l *ListRootsResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields ListRootsResult
	return appendFields(dst, (*fields)(l))
}

// MarshalJSON returns the result as a JSON object.
func (l ListRootsResult) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (l *ListRootsResult) UnmarshalJSON(data []byte) error {
	type fields ListRootsResult
	return decode(data, (*fields)(l))
}
