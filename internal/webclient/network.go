package webclient

import (
	"errors"

	"github.com/dovetail-go/dovetail/transport"
)

// NotReached makes an error [transport.ErrNotReached] under errors.Is: a failure to
// speak with the server at all.
func NotReached(err error) error {
	if errors.Is(err, transport.ErrNotReached) {
		return err
	}
	return &networkError{err}
}

type networkError struct{ err error }

func (e *networkError) Error() string        { return e.err.Error() }
func (e *networkError) Unwrap() error        { return e.err }
func (e *networkError) Is(target error) bool { return target == transport.ErrNotReached }
