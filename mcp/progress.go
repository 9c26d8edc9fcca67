package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A ProgressToken ties progress to the request that asked for it: the JSON text
// of a string or a number, as the requester has chosen it. It is kept byte for
// byte.
type ProgressToken json.RawMessage

// IsZero says whether there is no token.
func (t ProgressToken) IsZero() bool { return len(t) == 0 }

// MarshalJSON returns the token's text, null if there is none.
func (t ProgressToken) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t, nil
}

// UnmarshalJSON keeps a copy of a string or a number.
func (t *ProgressToken) UnmarshalJSON(data []byte) error {
	switch kind := jsonscan.KindOf(data); kind {
	case jsonscan.String, jsonscan.Number:
		*t = bytes.Clone(data)
		return nil
	default:
		return &DecodeError{Expected: "a string or an integer", Got: kind.String()}
	}
}

// ProgressParams are those of notifications/progress.
type ProgressParams struct {
	ProgressToken ProgressToken `json:"progressToken"`
	// Progress goes up with each notification, even if Total is unknown.
	Progress float64 `json:"progress"`
	// Total is what Progress will be at the end, nil if unknown.
	Total *float64 `json:"total,omitzero"`
	// Message says what is being done (since 2025-03-26).
	Message string `json:"message,omitzero"`
	Meta    Meta   `json:"_meta,omitzero"`
	Extra   Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (p *ProgressParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.raw("progressToken", json.RawMessage(p.ProgressToken))
	w.number("progress", p.Progress)
	if p.Total != nil {
		w.number("total", *p.Total)
	}
	w.optionalString("message", p.Message)
	w.meta(p.Meta)
	return w.close(p.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (p ProgressParams) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (p *ProgressParams) UnmarshalJSON(data []byte) error {
	type fields ProgressParams
	return decode(data, (*fields)(p))
}
