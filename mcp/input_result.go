package mcp

import (
	"encoding/json"
	"maps"
	"slices"
)

// An InputRequiredResult is a call's result that asks back: the client makes the
// call again, with the answers and the state (since 2026-07-28). At least one of
// the two is there.
type InputRequiredResult struct {
	// InputRequests are the questions, by keys that the server has chosen.
	InputRequests map[string]InputRequest `json:"inputRequests,omitzero"`
	// RequestState goes back to the server as it is.
	RequestState string `json:"requestState,omitzero"`
	// ResultType is always sent as [ResultInputRequired].
	ResultType ResultType `json:"resultType"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// AppendJSON appends the result as a JSON object, questions in the order of
// their keys.
func (i *InputRequiredResult) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("resultType", string(ResultInputRequired))
	if i.InputRequests != nil {
		w.member("inputRequests", func(dst []byte) ([]byte, error) { return appendRequests(dst, i.InputRequests) })
	}
	w.optionalString("requestState", i.RequestState)
	w.meta(i.Meta)
	return w.close(i.Extra)
}

func appendRequests(dst []byte, requests map[string]InputRequest) ([]byte, error) {
	w := openObject(dst)
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		w.member(key, func(dst []byte) ([]byte, error) {
			w := openObject(dst)
			w.string("method", requests[key].Method)
			w.optionalRaw("params", requests[key].Params)
			return w.close(nil)
		})
	}
	return w.close(nil)
}

// MarshalJSON returns the result as a JSON object.
func (i InputRequiredResult) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (i *InputRequiredResult) UnmarshalJSON(data []byte) error {
	type fields InputRequiredResult
	return decode(data, (*fields)(i))
}

// InputAnswers are what a call that is made again carries beside its own
// parameters (since 2026-07-28).
type InputAnswers struct {
	// InputResponses are the answers to the questions of the last round, by
	// their keys: an [ElicitResult], [CreateMessageResult] or [ListRootsResult].
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitzero"`
	// RequestState is that of the last round, as it was.
	RequestState string `json:"requestState,omitzero"`
}
