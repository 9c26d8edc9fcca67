package mcp

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

var errNoResponder = errors.New("mcp: the call has no responder: it can neither notify nor ask")

// An InputRequest is a question to the caller: elicitation, sampling or roots.
type InputRequest struct {
	// Method is [MethodElicit], [MethodCreateMessage] or [MethodRootsList].
	Method string `json:"method"`
	// Params are the parameters of the method.
	Params json.RawMessage `json:"params,omitzero"`
}

func (i *InputRequest) appendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("method", i.Method)
	w.optionalRaw("params", i.Params)
	return w.close(nil)
}

// An InputRequired is the error of a call that needs an answer of its caller, or that continues as a
// task. It is not a failure: the protocol layer asks the question or creates the task, and runs the
// call again. Middleware must return it unchanged, except for Asked.
type InputRequired struct {
	// Requests has the open questions by key.
	Requests map[string]InputRequest
	// Task, if not nil, makes the call a task of the server that has received it; see
	// [Call.BecomeTask]. The questions are asked first.
	Task *TaskRequest
	// Asked, if not nil, is called before the questions are sent, with a function that withdraws them. In the legacy era the call
	// then runs again without their answers. Other clients ask by themselves, and may make the call again: withdraw ends
	// what waits for that, the functions of [Call.OnDone]. withdraw may be called concurrently, and more than once. It refers to
	// the params of the call. Asked is not called for questions of a task.
	Asked func(withdraw func())
}

// WantsTask reports whether the call continues as a task now: Task is set, and no question is open.
func (e *InputRequired) WantsTask() bool { return e.Task != nil && len(e.Requests) == 0 }

// Error lists the keys of the questions.
func (e *InputRequired) Error() string {
	if e.WantsTask() {
		return "the call continues as a task"
	}
	return "input required: " + strings.Join(slices.Sorted(maps.Keys(e.Requests)), ", ")
}

// AsInputRequired returns the questions in an error, or the task that its call wants to become. Questions
// that errors.Join has combined are asked together. An error that contains any other error as well is a
// failure, and so is one without a question and a task: ok is false.
func AsInputRequired(err error) (*InputRequired, bool) {
	if err == nil {
		return nil, false
	}
	all, only := err.(*InputRequired)
	if !only {
		all = &InputRequired{Requests: make(map[string]InputRequest)}
		only = all.collect(err)
	}
	if !only || len(all.Requests) == 0 && !all.WantsTask() {
		return nil, false
	}
	return all, true
}

// collect adds the questions in an error, and reports whether the error contains nothing else.
func (e *InputRequired) collect(err error) bool {
	switch err := err.(type) {
	case nil:
		return true
	case *InputRequired:
		maps.Copy(e.Requests, err.Requests)
		if err.Task != nil {
			e.Task = err.Task
		}
		return true
	case interface{ Unwrap() error }:
		inner := err.Unwrap()
		return inner != nil && e.collect(inner)
	case interface{ Unwrap() []error }:
		only := true
		for _, part := range err.Unwrap() {
			only = e.collect(part) && only
		}
		return only
	}
	return false
}

// An InputRequiredResult is a result that asks questions. The client repeats the call with the
// answers and the state (since 2026-07-28). At least one of InputRequests and RequestState is set.
type InputRequiredResult struct {
	// InputRequests are the questions, by keys that the server has chosen.
	InputRequests map[string]InputRequest `json:"inputRequests,omitzero"`
	// RequestState is returned to the server unchanged.
	RequestState string `json:"requestState,omitzero"`
	// ResultType is always encoded as [ResultInputRequired].
	ResultType ResultType `json:"resultType"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// AppendJSON appends the result as a JSON object, with questions ordered by key.
func (i *InputRequiredResult) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("resultType", string(ResultInputRequired))
	w.optionalRequests("inputRequests", i.InputRequests)
	w.optionalString("requestState", i.RequestState)
	w.meta(i.Meta)
	return w.close(i.Extra)
}

// InputAnswers are the members of a repeated call, in addition to its own parameters (since
// 2026-07-28).
type InputAnswers struct {
	// InputResponses are the answers to the last questions by key: an [ElicitResult],
	// [CreateMessageResult] or [ListRootsResult].
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitzero"`
	// RequestState is the RequestState of the last result, unchanged.
	RequestState string `json:"requestState,omitzero"`
}
