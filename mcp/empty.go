package mcp

// EmptyParams are parameters without a member of their own: those of ping,
// roots/list, server/discover and the list_changed notifications.
type EmptyParams struct {
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (e *EmptyParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields EmptyParams
	return appendFields(dst, (*fields)(e))
}

// MarshalJSON returns the parameters as a JSON object.
func (e EmptyParams) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (e *EmptyParams) UnmarshalJSON(data []byte) error {
	type fields EmptyParams
	return decode(data, (*fields)(e))
}

// An EmptyResult says that a request was done: of ping, resources/subscribe,
// logging/setLevel, and of subscriptions/listen when it ends.
type EmptyResult struct {
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (e *EmptyResult) AppendJSON(dst []byte) ([]byte, error) {
	type fields EmptyResult
	return appendFields(dst, (*fields)(e))
}

// MarshalJSON returns the result as a JSON object.
func (e EmptyResult) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (e *EmptyResult) UnmarshalJSON(data []byte) error {
	type fields EmptyResult
	return decode(data, (*fields)(e))
}

// A ResultType says how a result is to be read (since 2026-07-28). Leave it
// empty: whoever carries the protocol fills it in. An empty one that was
// received means complete.
type ResultType string

// The types of results that the protocol defines; extensions add others.
const (
	ResultComplete      ResultType = "complete"
	ResultInputRequired ResultType = "input_required"
)
