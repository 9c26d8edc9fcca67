package jsonrpc

import "time"

const (
	// maxIdleWorkers is how many goroutines of a dispatcher wait for another task.
	maxIdleWorkers = 4
	// workerLinger is how long each of them does: through calls that follow each other,
	// not for as long as a session lasts.
	workerLinger = 10 * time.Millisecond
)

// A task is what a worker does: it runs a call, or reads until there is one.
type task interface{ perform() }

// run has a task done by a goroutine that has done another one, if there is one: its
// stack has grown to what a call takes, which costs more than the call.
func (d *Dispatcher) run(t task) {
	select {
	case d.tasks <- t:
	default:
		d.state.start()
		go d.work(t)
	}
}

func (d *Dispatcher) work(t task) {
	defer d.state.finish()
	for t != nil {
		t.perform()
		t = d.nextTask()
	}
}

// nextTask waits a moment for another task; nil is the worker's end.
func (d *Dispatcher) nextTask() task {
	defer d.idle.Add(-1)
	if d.idle.Add(1) > maxIdleWorkers {
		return nil
	}
	timer := d.timer(workerLinger)
	defer d.stop(timer)
	select {
	case t := <-d.tasks:
		return t
	case <-timer.C:
		return nil
	case <-d.input.Done():
		return nil
	}
}
