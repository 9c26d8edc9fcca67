package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// serves: each request says anew what its caller can be asked.
func (*modernClient) serves(*Session, *mcp.ClientCapabilities) bool { return true }

// forward makes one round of a call. What the server wants to know is asked of the
// caller; how to go on then is kept with the call.
func (m *modernClient) forward(ctx context.Context, s *Session, call *mcp.Call, how *Forwarding) (mcp.Result, error) {
	meta, err := m.metaOf(s, call.Caller)
	if err != nil {
		return nil, err
	}
	round, err := roundOf(call, how)
	if err != nil {
		return nil, err
	}
	p := new(passage)
	s.passages.begin(s, p, call, how)
	defer s.passages.end(p)
	p.attach(ctx, call)
	defer p.detach()
	requesting, cancel := p.carries(ctx, how.Timeout)
	defer cancel()
	params := &forwardParams{call: call, name: how.Name, meta: meta, token: p.token, state: round.State, responses: round.responses}
	wait := backoff.Backoff{}
	for again := range maxStateOnly + 1 {
		resp, err := s.conn.Call(requesting, call.Method(), params)
		if err != nil {
			return nil, afterRounds(len(round.Asked)+again, err)
		}
		switch kind := resp.Member("resultType"); string(kind) {
		case "", `"complete"`:
			return mcp.Raw(resp.Result), nil
		case `"input_required"`:
		default:
			return nil, maybeExecuted(call, fmt.Errorf("the result is of an unknown type %s", jsonscan.Quote(string(kind))))
		}
		var asked mcp.InputRequiredResult
		if err := asked.UnmarshalJSON(resp.Result); err != nil {
			return nil, maybeExecuted(call, fmt.Errorf("the server's question: %w", err))
		}
		if len(asked.InputRequests) > 0 {
			return nil, round.ask(call, how, &asked)
		}
		if asked.RequestState == "" {
			break
		}
		params.state, params.responses = asked.RequestState, nil
		if err := wait.Wait(requesting); err != nil {
			return nil, maybeExecuted(call, err)
		}
	}
	return nil, maybeExecuted(call, errors.New("the server asks to come again without a question"))
}

func notSent(call *mcp.Call, err error) error {
	return &jsonrpc.CallError{Method: call.Method(), Delivery: jsonrpc.NotSent, Err: err}
}

func maybeExecuted(call *mcp.Call, err error) error {
	return &jsonrpc.CallError{Method: call.Method(), Delivery: jsonrpc.MaybeExecuted, Err: err}
}

// A forwardRound is what a forwarded call has to know of its last round.
type forwardRound struct {
	// State is the server's.
	State string `json:"state,omitempty"`
	// Asked are the server's keys of its questions by those they were asked under.
	Asked map[string]string `json:"asked,omitempty"`

	responses json.RawMessage
}

func keptRound(how *Forwarding) string { return "forwarded " + how.Asker }

// roundOf is how the call goes on, with the answers that came.
func roundOf(call *mcp.Call, how *Forwarding) (*forwardRound, error) {
	round := new(forwardRound)
	kept, ok := call.Load(keptRound(how))
	if !ok {
		// A caller may have answers without a state: the server will know what they are.
		round.responses = call.Member(memberResponses)
		return round, nil
	}
	if err := json.Unmarshal(kept, round); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	for _, key := range sortedKeys(round.Asked) {
		answer, err := call.Input(key, mcp.InputRequest{})
		if _, open := mcp.AsInputRequired(err); open {
			continue // the server will ask again
		}
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonscan.AppendString(out, round.Asked[key]), ':'), answer...)
	}
	round.responses = append(out, '}')
	return round, nil
}

// ask asks the caller what the server wants to know.
func (r *forwardRound) ask(call *mcp.Call, how *Forwarding, result *mcp.InputRequiredResult) error {
	r.State, r.Asked = result.RequestState, make(map[string]string, len(result.InputRequests))
	questions := &mcp.InputRequired{Requests: make(map[string]mcp.InputRequest, len(result.InputRequests))}
	for _, theirs := range sortedKeys(result.InputRequests) {
		question, err := labelled(result.InputRequests[theirs], how.Asker)
		if err != nil {
			return fmt.Errorf("the server's question %s: %w", jsonscan.Quote(theirs), err)
		}
		key, err := newKey(call, keyOf(how, theirs), question)
		if _, open := mcp.AsInputRequired(err); !open {
			return fmt.Errorf("the server asks %s: %w", jsonscan.Quote(theirs), err)
		}
		r.Asked[key] = theirs
		questions.Requests[key] = question
	}
	kept, err := json.Marshal(r)
	if err != nil {
		return err
	}
	call.Store(keptRound(how), kept)
	return questions
}

// newKey is one that nothing has been answered under in this call: an answer to another
// question must not be taken for this one's. The error is that of asking.
func newKey(call *mcp.Call, wanted string, question mcp.InputRequest) (string, error) {
	key := wanted
	for n := 2; ; n++ {
		if _, err := call.Input(key, question); err != nil {
			return key, err
		}
		key = fmt.Sprintf("%s (%d)", wanted, n)
	}
}

// keyOf is what a question of a server is asked under: those of one that has a name
// cannot be taken for anybody else's in the same call.
func keyOf(how *Forwarding, theirs string) string {
	if how.Asker == "" {
		return theirs
	}
	return how.Asker + "#" + theirs
}

// labelled is a question that says which server asks it: a person must know.
func labelled(question mcp.InputRequest, asker string) (mcp.InputRequest, error) {
	if asker == "" || question.Method != mcp.MethodElicit {
		return question, nil
	}
	params, err := jsonscan.ReadObject(question.Params)
	if err != nil {
		return question, err
	}
	message := params.Get("message")
	if jsonscan.KindOf(message) != jsonscan.String {
		return question, nil
	}
	labelled := jsonscan.AppendString(nil, asker+": "+jsonscan.Unquote(message))
	question.Params, err = jsonscan.Splice(nil, question.Params, jsonscan.Edit{Name: "message", Value: labelled})
	return question, err
}

// metaOf are the members of _meta of a request that is somebody else's call: what
// can be asked is the caller's affair, who forwards it is not.
func (m *modernClient) metaOf(s *Session, caller *mcp.Caller) (string, error) {
	if known := m.forwarded.Load(); known != nil && known.caller == caller {
		return known.meta, nil
	}
	config := s.config
	config.Capabilities, config.LogLevel = caller.Capabilities, caller.LogLevel
	own, err := newModernClient(&config, s.speaks)
	if err != nil {
		return "", err
	}
	m.forwarded.Store(&callerMeta{caller, own.meta})
	return own.meta, nil
}

// callerMeta is the _meta of the calls of one caller.
type callerMeta struct {
	caller *mcp.Caller
	meta   string
}
