package console

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// ErrCanceled is the error of a call that an operator has canceled, and the cause with which the context of the call ends. Its
// caller gets an internal error whose data has the type CANCELED. For [errors.Is], it is a [context.Canceled] too.
var ErrCanceled error = canceledError{}

type canceledError struct{}

func (canceledError) Error() string {
	return "an operator has canceled the call; it may have been executed"
}

func (canceledError) Is(target error) bool { return target == context.Canceled }

func (e canceledError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Error(), Data: json.RawMessage(`{"type":"CANCELED","executed":"maybe"}`)}
	}
	return ok
}

var (
	errEnded   = errors.New("the call has ended")
	errBetween = errors.New("the call is about to continue as a task: try again")
)

// cancelCall cancels a call: its runs, the questions that are asked, and its task. Its caller gets [ErrCanceled], or the state of the
// task.
func (c *Console) cancelCall(ctx context.Context, id uint64) error {
	rest, err := c.record.cancel(id)
	if err != nil {
		return err
	}
	if rest.withdraw != nil {
		rest.withdraw()
	}
	if rest.task == "" {
		return nil
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodTasksCancel, json.RawMessage(`{"taskId":`+jsonscan.Quote(rest.task)+`}`))
	if err != nil {
		return err
	}
	call := mcp.NewCall(request, rest.caller, nil)
	_, err = c.server.Serve(ctx, &call)
	return err
}

// An uncanceled is what [Recorder.cancel] leaves to do: to withdraw questions, or to cancel a task of a caller.
type uncanceled struct {
	withdraw func()
	task     string
	caller   *mcp.Caller
}

// cancel cancels a call.
func (r *Recorder) cancel(id uint64) (rest uncanceled, err error) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.byID[id]
	switch {
	case w == nil:
		return rest, errNotKept
	case !w.ended.IsZero():
		return rest, errEnded
	case w.taskID != "":
		rest.task, rest.caller = w.taskID, w.from
	case w.running > 0:
		w.cancel(ErrCanceled) // the run ends the row
	case w.asked:
		rest.withdraw = w.withdraw
		w.advance(now)
		r.finish(w, now, frontend.Canceled, nil, ErrCanceled)
		r.byCall[w.callID] = w // so that it does not run again
		r.touch(w)
	default:
		return rest, errBetween
	}
	return rest, nil
}

// keepWithdraw keeps the function that withdraws what the caller of a row is asked, which refers to size bytes. It calls the
// function if the call has ended.
func (r *Recorder) keepWithdraw(w *row, withdraw func(), size int) {
	r.mu.Lock()
	ended := !w.ended.IsZero()
	if !ended && w.asked && r.byID[w.id] == w {
		w.withdraw = withdraw
		w.withdraws = r.withdraws.add(w.holder, w, size+1<<10)
	}
	r.mu.Unlock()
	if ended {
		withdraw()
	}
}

// taskCanceled ends the call of a task that was canceled.
func (r *Recorder) taskCanceled(id string) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.byTask[id]; w != nil && w.ended.IsZero() {
		w.advance(now)
		r.finish(w, now, frontend.Canceled, nil, nil)
		r.touch(w)
	}
}

// callDone ends a call that ends while its caller is asked, since it does not run again. ctx is the context of the caller.
func (r *Recorder) callDone(ctx context.Context, w *row) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.asked {
		return
	}
	outcome, err := frontend.Internal, error(nil)
	if frontend.CallerLeft(ctx) {
		outcome, err = frontend.Canceled, context.Cause(ctx)
	}
	w.advance(now)
	r.finish(w, now, outcome, nil, err)
	r.touch(w)
}

// ask notes that the caller of a row is asked from now on. The mutex is held.
func (r *Recorder) ask(w *row, now time.Time) {
	w.asked = true
	w.in[person]++
	w.askedAt, w.inAsked = now, r.questions.PushBack(w)
}

// stopAsking notes that the caller of a row is no longer asked. The mutex is held.
func (r *Recorder) stopAsking(w *row) {
	if !w.asked {
		return
	}
	w.asked = false
	w.in[person]--
	r.questions.Remove(w.inAsked)
	if w.withdraw != nil {
		r.withdraws.remove(w.withdraws)
	}
}

// expire ends the calls whose callers have not answered in time: then no run can continue them. The mutex is held.
func (r *Recorder) expire(now time.Time) {
	for e := r.questions.Front(); e != nil && now.Sub(e.Value.(*row).askedAt) >= era.StateLifetime; e = r.questions.Front() {
		w := e.Value.(*row)
		w.advance(now)
		r.finish(w, now, "approval_timeout", nil, nil)
		r.touch(w)
	}
}
