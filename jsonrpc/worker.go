package jsonrpc

import "time"

const (
	// maxIdleWorkers is how many goroutines of a connection wait for another call.
	maxIdleWorkers = 4
	// workerLinger is how long each of them does.
	workerLinger = time.Second
)

// run runs a call on a goroutine that has run another one, if there is one: its stack
// has grown to what a call takes, which costs more than the call.
func (d *Dispatcher) run(call *incomingCall) {
	select {
	case d.calls <- call:
	default:
		d.state.start()
		go d.work(call)
	}
}

func (d *Dispatcher) work(call *incomingCall) {
	defer d.state.finish()
	for call != nil {
		call.route.serve(call)
		call = d.nextCall()
	}
}

// nextCall waits a moment for another call; nil is the worker's end.
func (d *Dispatcher) nextCall() *incomingCall {
	defer d.idle.Add(-1)
	if d.idle.Add(1) > maxIdleWorkers || d.calls == nil {
		return nil
	}
	timer := d.timer(workerLinger)
	defer d.stop(timer)
	select {
	case call := <-d.calls:
		return call
	case <-timer.C:
		return nil
	case <-d.input.Done():
		return nil
	}
}
