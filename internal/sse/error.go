package sse

import "fmt"

// A TooLongError ends the reading of a stream: what it sends is no event that
// anybody wanted.
type TooLongError struct {
	// Field is "data", "id", "event" or "retry".
	Field string
	// Max is how many bytes it may have.
	Max int
}

// Error names the field and its limit.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("sse: the %s of an event may have at most %d bytes, and more came", e.Field, e.Max)
}

// A FieldError is an event that cannot be written.
type FieldError struct {
	// Field is "id", "event" or "retry".
	Field string
	// Reason says what it must not be.
	Reason string
}

// Error names the field and the reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("sse: the field %s of an event %s", e.Field, e.Reason)
}
