package mcp

import "encoding/json"

// CreateMessageParams are those of sampling/createMessage: a server asks the
// client's model. Deprecated by the protocol in 2026-07-28.
type CreateMessageParams struct {
	Messages         []SamplingMessage `json:"messages"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	// SystemPrompt is a wish; the client may change or ignore it.
	SystemPrompt string `json:"systemPrompt,omitzero"`
	// IncludeContext is deprecated by the protocol since 2025-11-25.
	IncludeContext IncludeContext `json:"includeContext,omitzero"`
	Temperature    *float64       `json:"temperature,omitzero"`
	// MaxTokens is the most the client may sample.
	MaxTokens     int      `json:"maxTokens"`
	StopSequences []string `json:"stopSequences,omitzero"`
	// Metadata is a JSON object for the model's provider.
	Metadata json.RawMessage `json:"metadata,omitzero"`
	// Tools may be used by the model (since 2025-11-25; the client must have
	// declared sampling.tools).
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

// IncludeContext is what a client adds to the messages of a server.
type IncludeContext string

// The values of IncludeContext; "" means none.
const (
	IncludeNone       IncludeContext = "none"
	IncludeThisServer IncludeContext = "thisServer"
	IncludeAllServers IncludeContext = "allServers"
)

// ModelPreferences are wishes for a model, priorities from 0, unimportant, to
// 1. The client decides.
type ModelPreferences struct {
	// Hints are tried in order; the first that fits a model counts.
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

// A CreateMessageResult is what the client's model has said.
type CreateMessageResult struct {
	Role    Role            `json:"role"`
	Content SamplingContent `json:"content"`
	// Model is the name of the one that was asked.
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

// A StopReason is why a model stopped. There may be others than those below.
type StopReason string

// Common reasons.
const (
	StopEndTurn   StopReason = "endTurn"
	StopSequence  StopReason = "stopSequence"
	StopMaxTokens StopReason = "maxTokens"
	// StopToolUse: the model wants to call tools (since 2025-11-25).
	StopToolUse StopReason = "toolUse"
)
