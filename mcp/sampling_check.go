package mcp

import "fmt"

// ValidateSampling checks the tool uses and results in messages to a model: a result
// stands in a message of the user, among results only, and directly after the
// message of the assistant whose tool use it answers; each use is answered there,
// once, unless it stands in the last message. The error names the first message that
// is wrong. MCP 2025-11-25, client/sampling, "Message Content Constraints".
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

// toolExchange lists the ids of a message's tool results and tool uses.
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
		return nil, nil, fmt.Errorf("tool results stand alone: the message has %d other contents", len(m.Content)-len(results))
	case len(uses) > 0 && m.Role != RoleAssistant:
		return nil, nil, fmt.Errorf("tool uses are the assistant's, not of the %.80q", m.Role)
	}
	return results, uses, nil
}
