package era

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/seal"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// MayAsk reports whether calls of a method may end in a question.
func MayAsk(method string) bool {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		return true
	}
	return false
}

func mayNotAsk(method string) error { return fmt.Errorf("%s may not ask its caller", method) }

// ask answers a modern call with the questions it needs answered. Answers of
// earlier rounds travel in the sealed state, because a client sends only those
// of the last one. MCP 2026-07-28, basic/patterns/mrtr.
func (s *Server) ask(c *call, question *mcp.InputRequired, reply *jsonrpc.Reply) error {
	if !MayAsk(c.Method()) {
		return mayNotAsk(c.Method())
	}
	description, err := s.core.Describe()
	if err != nil {
		return err
	}
	c.ID()
	plain, err := json.Marshal(&c.state)
	if err != nil {
		return err
	}
	token, err := s.keys.Seal(plain, stateBinding(c), time.Now().Add(StateLifetime))
	if err != nil {
		return fmt.Errorf("the call keeps too much between its rounds: %w", err)
	}
	err = reply.Write(&mcp.InputRequiredResult{
		InputRequests: question.Requests,
		RequestState:  token,
		Meta:          mcp.Meta(`{"` + mcp.MetaServerInfo + `":` + string(s.serverInfo.of(description).encoded) + `}`),
	})
	c.asks = err == nil
	return err
}

// resume takes up what earlier rounds of the call have left: the sealed state
// and the answers that came with this request.
func (s *Server) resume(c *call) error {
	if token := c.Member("requestState"); token != nil {
		if err := s.open(c, token); err != nil {
			return err
		}
	}
	responses := c.Member("inputResponses")
	if responses == nil {
		return nil
	}
	answers, err := jsonscan.ReadObject(responses)
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "inputResponses must be an object of answers by their keys: " + err.Error()}
	}
	for answer := range answers.All() {
		if jsonscan.New(answer.Value).Kind() != jsonscan.Object {
			return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "inputResponses: the answer to " + jsonscan.Quote(jsonscan.Unquote(answer.Key)) + " must be an object"}
		}
		c.answer(jsonscan.Unquote(answer.Key), answer.Value)
	}
	return nil
}

func (s *Server) open(c *call, token json.RawMessage) error {
	var text string
	if err := json.Unmarshal(token, &text); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "requestState must be the string that came with the questions"}
	}
	plain, err := s.keys.Open(text, stateBinding(c), time.Now())
	switch {
	case errors.Is(err, seal.ErrExpired):
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "requestState has expired: make the call again from its beginning"}
	case err != nil:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "requestState is not one of this server's for this call"}
	}
	return json.Unmarshal(plain, &c.state)
}

// stateBinding is what a state is good for: this caller, this method, these
// parameters.
func stateBinding(c *call) []byte {
	return seal.Binding(c.Caller.Principal, c.Method(),
		string(c.Member("name")), string(c.Member("uri")), string(c.Member("arguments")))
}

// checkAskable says whether a caller has declared that it can be asked this.
func checkAskable(caller *mcp.Caller, question mcp.InputRequest) error {
	missing := missingCapability(&caller.Capabilities, question)
	if missing == "" {
		return nil
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingClientCapability,
		Message: "the client cannot be asked: it did not declare " + missing,
		Data:    json.RawMessage(`{"requiredCapabilities":` + missing + `}`),
	}
}

// missingCapability is the capability object that a question needs and the
// client did not declare, "" when there is none.
func missingCapability(has *mcp.ClientCapabilities, question mcp.InputRequest) string {
	switch question.Method {
	case mcp.MethodRootsList:
		if has.Roots == nil {
			return `{"roots":{}}`
		}
	case mcp.MethodCreateMessage:
		if has.Sampling == nil {
			return `{"sampling":{}}`
		}
		if has.Sampling.Tools == nil && (hasMember(question.Params, "tools") || hasMember(question.Params, "toolChoice")) {
			return `{"sampling":{"tools":{}}}`
		}
	case mcp.MethodElicit:
		return missingElicitation(has.Elicitation, hasMember(question.Params, "url"))
	}
	return ""
}

// missingElicitation: an empty declaration means forms only.
func missingElicitation(has *mcp.ElicitationCapability, url bool) string {
	switch {
	case url && (has == nil || has.URL == nil):
		return `{"elicitation":{"url":{}}}`
	case !url && (has == nil || has.Form == nil && has.URL != nil):
		return `{"elicitation":{"form":{}}}`
	}
	return ""
}

func hasMember(object json.RawMessage, name string) bool {
	o, err := jsonscan.ReadObject(object)
	return err == nil && o.Get(name) != nil
}
