package transcript

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A Mock is a server that answers requests as the recorded server did. A request is recognized by
// its method and its params, without _meta. The same request gets the recorded answers in order, and
// then the last one again.
type Mock struct {
	mu     sync.Mutex
	byKey  map[string][]*step
	unseen func(method string)
}

// Mock returns the server. unseen, if it is not nil, is called for each request that the transcript
// does not have.
func (t *Transcript) Mock(unseen func(method string)) *Mock {
	m := &Mock{byKey: make(map[string][]*step), unseen: unseen}
	for _, s := range t.steps {
		if s.ID != nil {
			k := keyOf(s.Method, s.Params)
			m.byKey[k] = append(m.byKey[k], s)
		}
	}
	return m
}

// keyOf returns the key of a request. Equal requests have equal keys.
func keyOf(method string, params json.RawMessage) string {
	switch method {
	case "initialize", "server/discover", "ping", "subscriptions/listen", "logging/setLevel":
		return method
	}
	var object map[string]any
	if json.Unmarshal(params, &object) != nil {
		return method + " " + string(params)
	}
	delete(object, "_meta")
	text, err := json.Marshal(object) // sorts the members
	if err != nil {
		return method + " " + string(params)
	}
	return method + " " + string(text)
}

// take returns the next step for a request, or nil.
func (m *Mock) take(method string, params json.RawMessage) *step {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(method, params)
	steps := m.byKey[key]
	if len(steps) == 0 {
		return nil
	}
	if len(steps) > 1 {
		m.byKey[key] = steps[1:]
	}
	return steps[0]
}

// Bind returns the handler of one client.
func (m *Mock) Bind(transport.Link) jsonrpc.Handler { return mockHandler{m} }

type mockHandler struct{ *Mock }

func (h mockHandler) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func (h mockHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	s := h.take(req.Method, req.Params)
	if s == nil {
		if req.Method == "ping" {
			reply.Buf = append(reply.Buf, "{}"...)
			return nil
		}
		if h.unseen != nil {
			h.unseen(req.Method)
		}
		code := jsonrpc.InvalidParams
		if !h.knows(req.Method) {
			code = jsonrpc.MethodNotFound
		}
		return &jsonrpc.Error{Code: code, Message: fmt.Sprintf("the transcript has no such request of %s", req.Method)}
	}
	id, err := json.Marshal(req.ID)
	if err != nil {
		return err
	}
	for i, sent := range s.during {
		if s.response != nil && i == s.after {
			break
		}
		params := jsonrpc.Raw(replaced(sent.Params, s, id, req.Params))
		if sent.ID == nil {
			err = from.Notify(ctx, sent.Method, params)
		} else {
			_, err = from.Call(ctx, sent.Method, params) // the answer does not change the next steps
		}
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if s.response == nil { // a subscription, or a call that was cancelled
		<-ctx.Done()
		return ctx.Err()
	}
	if e := s.response.Error; e != nil {
		return &jsonrpc.Error{Code: jsonrpc.Code(e.Code), Message: e.Message, Data: e.Data}
	}
	reply.Buf = append(reply.Buf, s.response.Result...)
	return nil
}

func (h mockHandler) knows(method string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, steps := range h.byKey {
		if steps[0].Method == method {
			return true
		}
	}
	return false
}

// replaced returns the params of a message of the server for this session. It replaces the recorded progress token and
// the recorded id of the message's request.
func replaced(params json.RawMessage, s *step, id, request json.RawMessage) json.RawMessage {
	if params == nil {
		return json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(params, &object) != nil {
		return params
	}
	if token := tokenOf(request); object["progressToken"] != nil && token != nil {
		object["progressToken"] = token
	}
	var meta map[string]json.RawMessage
	if json.Unmarshal(object["_meta"], &meta) == nil && string(meta[subscription]) == string(s.ID) && meta[subscription] != nil {
		meta[subscription] = id
		changed, err := json.Marshal(meta)
		if err != nil {
			return params
		}
		object["_meta"] = changed
	}
	text, err := json.Marshal(object)
	if err != nil {
		return params
	}
	return text
}

const subscription = "io.modelcontextprotocol/subscriptionId"

func tokenOf(params json.RawMessage) json.RawMessage {
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	return p.Meta.Token
}
