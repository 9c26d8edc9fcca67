package server_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestToolsForModelsMustBeDeclared: a client that has not declared that its model may
// use tools is asked without them, and not with them. MCP 2025-11-25, client/sampling.
func TestToolsForModelsMustBeDeclared(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		says := func(text string) *model {
			return &model{says: []mcp.SamplingContent{{mcp.Text(text)}}}
		}
		plain, able := says(`{"name":"rye","minutes":60}`), says("60 minutes")
		session := connectWith(t, newSampler(), &client.Options{Era: era, Sample: plain.sample})
		if got := texts(call(t, session, "invent", `{}`)); got != `{"name":"rye","minutes":60}` {
			t.Errorf("without tools the model is asked, and the tool says %q", got)
		}
		plain.asked = nil
		_, err := session.CallTool(t.Context(), "look_up", nil, nil)
		code := mcp.CodeMissingClientCapability
		if era == client.Legacy {
			code = jsonrpc.InvalidRequest
		}
		if wantCode(t, err, code); !strings.Contains(message(err), `{"sampling":{"tools":{}}}`) || len(plain.asked) > 0 {
			t.Errorf("the model was asked %d times, and the error is %v", len(plain.asked), err)
		}
		session = connectWith(t, newSampler(), &client.Options{Era: era, Sample: able.sample, SampleTools: true})
		if got := texts(call(t, session, "look_up", `{}`)); got != "60 minutes" {
			t.Errorf("with tools declared the tool says %q", got)
		}
	})
}
