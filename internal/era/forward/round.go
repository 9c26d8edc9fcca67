package forward

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A round is what the next run of a call needs to know of the last one. It is stored with
// the call.
type round struct {
	// State is that of a modern server.
	State string `json:"state,omitempty"`
	// Asked has the server's keys of its questions by those that the caller got.
	Asked map[string]string `json:"asked,omitempty"`
	// Replica names the [SuspendedCalls] that holds the call to a legacy server.
	Replica string `json:"replica,omitempty"`
}

func storedAs(opts *Options) string { return "forwarded " + opts.ServerLabel }

// loadRound returns nil in the first run of a call.
func loadRound(call *mcp.Call, opts *Options) (*round, error) {
	stored, ok := call.Load(storedAs(opts))
	if !ok {
		return nil, nil
	}
	r := new(round)
	return r, json.Unmarshal(stored, r)
}

// store returns the question, for which the call will have another run.
func (r *round) store(call *mcp.Call, opts *Options, question error) error {
	stored, err := json.Marshal(r)
	if err != nil {
		return err
	}
	call.Store(storedAs(opts), stored)
	return question
}

// responses are the caller's answers under the server's keys.
func (r *round) responses(call *mcp.Call) (json.RawMessage, error) {
	out := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(r.Asked)) {
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
		out = append(append(jsonscan.AppendString(out, r.Asked[key]), ':'), answer...)
	}
	return append(out, '}'), nil
}

// ask returns the error that asks the caller the questions of a modern server.
func ask(call *mcp.Call, opts *Options, result *mcp.InputRequiredResult) error {
	r := &round{State: result.RequestState, Asked: make(map[string]string, len(result.InputRequests))}
	questions := &mcp.InputRequired{Requests: make(map[string]mcp.InputRequest, len(result.InputRequests))}
	for _, theirs := range slices.Sorted(maps.Keys(result.InputRequests)) {
		question, err := withServerName(result.InputRequests[theirs], opts.ServerLabel)
		if err != nil {
			return fmt.Errorf("the server's question %s: %w", jsonscan.Quote(theirs), err)
		}
		key, err := unansweredKey(call, questionKey(opts.ServerLabel, theirs), question)
		if _, open := mcp.AsInputRequired(err); !open {
			return fmt.Errorf("the server asks %s: %w", jsonscan.Quote(theirs), err)
		}
		r.Asked[key] = theirs
		questions.Requests[key] = question
	}
	return r.store(call, opts, questions)
}

// unansweredKey returns a key without an answer in this call: the answer to another
// question must not be taken for that to this one. The error is that of asking.
func unansweredKey(call *mcp.Call, wanted string, question mcp.InputRequest) (string, error) {
	key := wanted
	for n := 2; ; n++ {
		if _, err := call.Input(key, question); err != nil {
			return key, err
		}
		key = fmt.Sprintf("%s (%d)", wanted, n)
	}
}

// questionKey returns the key under which the caller is asked: questions of a server that
// has a label differ from those of all others in the same call.
func questionKey(label, theirs string) string {
	if label == "" {
		return theirs
	}
	return label + "#" + theirs
}

// withServerName returns the question with the server's label before its message: the
// person must know who asks.
func withServerName(question mcp.InputRequest, label string) (mcp.InputRequest, error) {
	if label == "" || question.Method != mcp.MethodElicit {
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
	labelled := jsonscan.AppendString(nil, label+": "+jsonscan.Unquote(message))
	question.Params, err = jsonscan.Splice(nil, question.Params, jsonscan.Edit{Name: "message", Value: labelled})
	return question, err
}
