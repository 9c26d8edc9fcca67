package jsonrpc

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// A reader is the task of reading from a connection, which one worker has at a time. It
// hands calls to other workers or, where the stream is a [Peeker], the reading: either way
// no handler holds up another message.
type reader struct{ *Conn }

func (r reader) perform() {
	if call := r.read(); call != nil {
		r.route.d.run(r)
		call.perform()
	}
}

// read reads until there is a call for this goroutine to run. Otherwise reading has ended
// for good, and Run is told why: even if a callback has panicked or ended the goroutine.
func (r reader) read() (lone *incomingCall) {
	end := errGoexit
	defer func() {
		if p := recover(); p != nil {
			end = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if lone == nil {
			r.readEnd <- end
		}
	}()
	for {
		call, err := r.readOne()
		switch {
		case err != nil:
			end = err
			return nil
		case call == nil:
		case call.alone && r.isDrained():
			return call
		default:
			r.route.d.run(call)
		}
	}
}

var errGoexit = errors.New("a callback has ended the goroutine that reads")

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
