package soak

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

// echoed calls a tool of the target that answers with a text.
func echoed(ctx context.Context, session *client.Session, tool, nonce string) (string, error) {
	result, err := session.CallTool(ctx, tool, echoIn{nonce}, nil)
	if err != nil {
		return "", err
	}
	if text := textOf(result); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("the result of %s has no text", tool)
}

// textOf is the text that a result consists of, "" if it is none.
func textOf(result *mcp.CallToolResult) string {
	if len(result.Content) == 1 && !result.IsError {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}
