package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// An Outcome is how a run has ended: with a result, an error or questions, or not at all.
type Outcome struct {
	// Result is the result of the call. Failed says that it reports a failure of the tool.
	Result json.RawMessage
	Failed bool
	// Error is the JSON-RPC error of the call, and Message describes it.
	Error *jsonrpc.Error
	// Questions are asked, and the next run gets State.
	Questions map[string]mcp.InputRequest
	State     json.RawMessage
	// HandedBack says that the call has not ended, and that this replica does not go on with it: it shuts
	// down, or does not have the tool. Another replica begins the call again if its function has not begun,
	// or may be restarted.
	HandedBack bool
}

// size returns the size of the outcome in bytes.
func (o *Outcome) size() int {
	size := len(o.Result) + len(o.State)
	if o.Error != nil {
		size += len(o.Error.Message) + len(o.Error.Data)
	}
	if o.Questions != nil {
		if questions, err := json.Marshal(o.Questions); err == nil {
			size += len(questions)
		}
	}
	return size
}

// finish stores the outcome of a run. cause is why the context of the run has ended, or nil.
func (r *Run) finish(cause error, outcome *Outcome) {
	incomplete := outcome.Error != nil || outcome.Failed || outcome.Questions != nil
	unsaved, isUnsaved := errors.AsType[*unsavedError](cause)
	switch {
	case errors.Is(cause, errLost):
		return // the job is that of another worker
	case outcome.HandedBack, errors.Is(cause, errNotBegun), errors.Is(cause, errStopped) && incomplete:
		r.handBack()
		return
	case errors.Is(cause, ErrExpired) && incomplete:
		*outcome = Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: ErrExpired.Error()}}
	case isUnsaved && incomplete:
		*outcome = mayBeExecuted(unsaved)
	}
	cancelled := errors.Is(cause, ErrCancelled) && incomplete
	ctx, stop := context.WithDeadline(r.engine.working, r.until)
	defer stop()
	var pause backoff.Backoff
	for {
		err := r.conclude(cancelled, outcome)
		switch {
		case errors.Is(err, errSealed):
			r.engine.config.Logger.Error("the outcome of a task is lost, since this replica has lost its key", "error", err)
			r.engine.nak(r.job, delay(r.job.Attempt))
			return
		case err == nil, errors.Is(err, ErrUnknown): // stored, or expired
			r.engine.ack(r.job)
			return
		case errors.Is(err, errLost):
			return
		case noRoom(err) && r.useRoom():
			continue
		case noRoom(err) && outcome.size() > outcomeRoom:
			*outcome = mayBeExecuted(err)
			continue
		}
		if ctx.Err() != nil {
			r.engine.config.Logger.Error("the outcome of a task is lost, since it cannot be stored", "error", err)
			return
		}
		r.engine.config.Logger.Warn("the outcome of a task cannot be stored; it is tried again", "error", err)
		_ = pause.Wait(ctx) // if ctx ends, it is tried once more
	}
}

// mayBeExecuted returns the outcome of a call that has executed something, and whose own outcome, or a value of
// it, cannot be stored.
func mayBeExecuted(err error) Outcome {
	return Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the call may have been executed: " + err.Error()}}
}

// useRoom frees the room that is reserved for the outcome. It returns false if there is none.
func (r *Run) useRoom() bool {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	room := r.room
	r.room = part{}
	r.engine.drop(context.Background(), r.ID, room)
	return room.Chunks > 0
}

// conclude stores the outcome.
func (r *Run) conclude(cancelled bool, outcome *Outcome) error {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	e := r.engine
	var written part
	var err error
	switch {
	case cancelled:
	case outcome.Questions != nil:
		if err := checkQuestions(outcome.Questions); err != nil {
			return err
		}
		written, err = e.write(ctx, r.ID, "state", outcome.State, r.until)
	case outcome.Error == nil:
		written, err = e.write(ctx, r.ID, "result", outcome.Result, r.until)
	}
	if err != nil {
		return err
	}
	rec, err := r.update(ctx, func(rec *record) {
		r.reported(rec)
		switch {
		case outcome.Questions != nil && rec.Unknown: // the client may have been told that the task has ended
		case cancelled, outcome.Questions != nil && rec.Cancelled:
			rec.end(mcp.TaskCancelled, cancelledMessage)
		case outcome.Questions != nil:
			rec.State, rec.Room, rec.Begun, rec.Lapsed = written, part{}, false, false
			rec.Status, rec.Questions, rec.Answers = mcp.TaskInputRequired, outcome.Questions, nil
		case outcome.Error != nil:
			rec.fail(outcome.Error)
		default:
			rec.end(mcp.TaskCompleted, rec.Message)
			rec.Result, rec.Error = written, nil
		}
		rec.Unknown = false
	})
	if errors.Is(err, errLost) { // after another error, the record may name it
		e.drop(ctx, r.ID, written)
	}
	if err == nil {
		e.changed(ctx, r.ID, rec)
	}
	return err
}

func checkQuestions(questions map[string]mcp.InputRequest) error {
	data, err := json.Marshal(questions)
	if err != nil {
		return fmt.Errorf("encoding the questions of a task: %w", err)
	}
	if len(data) > maxQuestions {
		return &SizeError{"questions", len(data), maxQuestions}
	}
	return nil
}

func encodeError(err *jsonrpc.Error) json.RawMessage {
	out := jsonscan.AppendString(fmt.Appendf(nil, `{"code":%d,"message":`, err.Code), err.Message)
	if jsonscan.Valid(err.Data) == nil {
		out = append(append(out, `,"data":`...), err.Data...)
	}
	return append(out, '}')
}
