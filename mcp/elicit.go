package mcp

import "encoding/json"

// ElicitParams are those of elicitation/create: a server asks the person behind
// the client (since 2025-06-18).
type ElicitParams struct {
	// Mode is how to ask; "" means a form. It exists since 2025-11-25.
	Mode ElicitMode `json:"mode,omitzero"`
	// Message says what is asked for, and why.
	Message string `json:"message"`
	// RequestedSchema is the form's schema: an object of strings, numbers,
	// booleans and choices. [ElicitSchema] makes and reads one.
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"`
	// URL is where to send the person. It must not hold secrets.
	URL string `json:"url,omitzero"`
	// ElicitationID names the visit of a URL (2025-11-25 only).
	ElicitationID string `json:"elicitationId,omitzero"`
	Meta          Meta   `json:"_meta,omitzero"`
	Extra         Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (e *ElicitParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.optionalString("mode", string(e.Mode))
	w.string("message", e.Message)
	w.optionalRaw("requestedSchema", e.RequestedSchema)
	w.optionalString("url", e.URL)
	w.optionalString("elicitationId", e.ElicitationID)
	w.meta(e.Meta)
	return w.close(e.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (e ElicitParams) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (e *ElicitParams) UnmarshalJSON(data []byte) error {
	type fields ElicitParams
	return decode(data, (*fields)(e))
}

// An ElicitMode is how a person is asked.
type ElicitMode string

// The modes.
const (
	// ElicitForm shows a form. It must not ask for secrets.
	ElicitForm ElicitMode = "form"
	// ElicitURL sends the person to a URL (since 2025-11-25).
	ElicitURL ElicitMode = "url"
)

// An ElicitResult is what the person did.
type ElicitResult struct {
	Action ElicitAction `json:"action"`
	// Content is the filled-in form, a JSON object; only an accepted form has
	// one.
	Content json.RawMessage `json:"content,omitzero"`
	Meta    Meta            `json:"_meta,omitzero"`
	Extra   Extra           `json:",embed"`
}

// AppendJSON appends the result as a JSON object.
func (e *ElicitResult) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("action", string(e.Action))
	w.optionalRaw("content", e.Content)
	w.meta(e.Meta)
	return w.close(e.Extra)
}

// MarshalJSON returns the result as a JSON object.
func (e ElicitResult) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (e *ElicitResult) UnmarshalJSON(data []byte) error {
	type fields ElicitResult
	return decode(data, (*fields)(e))
}

// An ElicitAction is what a person did with a question.
type ElicitAction string

// The actions.
const (
	ElicitAccept  ElicitAction = "accept"
	ElicitDecline ElicitAction = "decline"
	// ElicitCancel: the person went away without a choice.
	ElicitCancel ElicitAction = "cancel"
)

// ElicitationCompleteParams are those of notifications/elicitation/complete
// (2025-11-25 only): what was to be done at a URL is done.
type ElicitationCompleteParams struct {
	ElicitationID string `json:"elicitationId"`
	Meta          Meta   `json:"_meta,omitzero"`
	Extra         Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (e *ElicitationCompleteParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields ElicitationCompleteParams
	return appendFields(dst, (*fields)(e))
}

// MarshalJSON returns the parameters as a JSON object.
func (e ElicitationCompleteParams) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (e *ElicitationCompleteParams) UnmarshalJSON(data []byte) error {
	type fields ElicitationCompleteParams
	return decode(data, (*fields)(e))
}
