package policy

import (
	"fmt"
	"strconv"
)

// An Effect is what becomes of a call. The lesser is the stricter.
type Effect uint8

// The effects. The zero value denies.
const (
	Deny Effect = iota
	// Ask leaves it to a person. Where there is nobody to ask, the call is denied.
	Ask
	Allow
)

func (e Effect) String() string {
	switch e {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	default:
		return "Effect(" + strconv.Itoa(int(e)) + ")"
	}
}

// MarshalText returns allow, deny or ask.
func (e Effect) MarshalText() ([]byte, error) {
	if e > Allow {
		return nil, fmt.Errorf("policy: there is no %v", e)
	}
	return []byte(e.String()), nil
}

// UnmarshalText takes allow, deny or ask.
func (e *Effect) UnmarshalText(text []byte) error {
	for known := Deny; known <= Allow; known++ {
		if string(text) == known.String() {
			*e = known
			return nil
		}
	}
	return fmt.Errorf("expected allow, deny or ask, found %.60q", text)
}
