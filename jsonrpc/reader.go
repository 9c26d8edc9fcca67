package jsonrpc

import "errors"

// A reader is the task of reading from a connection, which one worker has at a time. It
// hands calls to other workers or, where the stream is a [Peeker], the reading: either way
// no handler holds up another message.
type reader struct{ *Conn }

func (r reader) perform() {
	for {
		call, err := r.readOne()
		switch {
		case err != nil:
			r.readEnd <- err
			return
		case call == nil:
		case call.alone && r.isDrained():
			r.route.d.run(r)
			call.perform()
			return
		default:
			r.route.d.run(call)
		}
	}
}

// isDrained says whether reading on means waiting.
func (r reader) isDrained() bool { return r.peeker != nil && !r.peeker.HasMore() }

// readOne reads one frame. It returns the call that is to be run.
func (r reader) readOne() (*incomingCall, error) {
	data, err := r.stream.Read()
	if r.route.d.isClosing() {
		return nil, ErrClosed // what still waits in the stream is not begun any more
	}
	if err == nil {
		call, borrowed := r.route.receive(data)
		if borrowed && r.route.recycler != nil {
			r.route.recycler.Recycle(data)
		}
		return call, nil
	}
	if bad, ok := errors.AsType[*FrameError](err); ok {
		r.route.refuse(&DecodeError{Err: &Error{Code: InvalidRequest, Message: bad.Reason}})
		return nil, nil
	}
	return nil, err
}
