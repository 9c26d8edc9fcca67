package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestFormsMustNotAskForSecrets has a server ask with forms that the user must not get.
func TestFormsMustNotAskForSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		schema string
		shown  bool
	}{
		"simple":                    {`{"type":"object","properties":{"city":{"type":"string","title":"City"}}}`, true},
		"closed":                    {`{"type":"object","properties":{"city":{"type":"string"}},"additionalProperties":false}`, true},
		"choice":                    {`{"type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"a","title":"A"}]}}}`, true},
		"choices":                   {`{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["a"]}}}}`, true},
		"like a secret":             {`{"type":"object","properties":{"secretary":{"type":"string"},"tokens":{"type":"integer"}}}`, true},
		"password":                  {`{"type":"object","properties":{"user":{"type":"string"},"password":{"type":"string"}}}`, false},
		"newPassword":               {`{"type":"object","properties":{"newPassword":{"type":"string"}}}`, false},
		"API-Key":                   {`{"type":"object","properties":{"API-Key":{"type":"string"}}}`, false},
		"client_secret_2":           {`{"type":"object","properties":{"client_secret_2":{"type":"string"}}}`, false},
		"title":                     {`{"type":"object","properties":{"a":{"type":"string","title":"Your access token"}}}`, false},
		"escaped":                   {`{"type":"object","properties":{"\u0070assword":{"type":"string"}}}`, false},
		"format":                    {`{"type":"object","properties":{"a":{"type":"string","format":"password"}}}`, false},
		"oneOf":                     {`{"type":"object","properties":{},"oneOf":[{"properties":{"a":{"type":"string"}}}]}`, false},
		"reference":                 {`{"type":"object","properties":{},"$ref":"#/$defs/a"}`, false},
		"additionalProperties":      {`{"type":"object","properties":{},"additionalProperties":{"type":"string","title":"secret"}}`, false},
		"object":                    {`{"type":"object","properties":{"a":{"type":"object"}}}`, false},
		"properties without a type": {`{"type":"object","properties":{"a":{"properties":{"b":{"type":"string"}}}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				ask := fmt.Sprintf(`{"message":"m","requestedSchema":%s}`, test.schema)
				var shown bool
				session := connect(t, script(func(req *jsonrpc.Request) []string {
					switch {
					case req.Method == "response":
						return []string{}
					case req.Method != mcp.MethodToolsCall:
						return nil
					case era == client.Legacy:
						return []string{`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":` + ask + `}`, result(req, text("done"))}
					case req.Member("inputResponses") != nil:
						return []string{result(req, `{"resultType":"complete","content":[]}`)}
					}
					return []string{result(req, `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":`+ask+`}}}`)}
				}), client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					shown = true
					return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
				}})
				_, err := session.CallTool(t.Context(), "login", nil, nil)
				if era == client.Modern && (err == nil) != test.shown {
					t.Errorf("error %v", err)
				}
				session.Close() // waits for handlers
				if shown != test.shown {
					t.Errorf("shown: %t, want %t", shown, test.shown)
				}
			})
		})
	}
}
