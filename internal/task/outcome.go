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
	"github.com/dovetail-go/dovetail/transport/store"
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
		size += len(encodeError(o.Error)) + min(len(o.Error.Message), maxMessage)
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
	failed := outcome.Error != nil || outcome.Failed
	incomplete := failed || outcome.Questions != nil
	unsaved, isUnsaved := errors.AsType[*unsavedError](cause)
	switch {
	case errors.Is(cause, errLost):
		return // the job belongs to another worker
	case outcome.HandedBack, errors.Is(cause, errNotBegun), errors.Is(cause, errStopped) && failed:
		r.handBack()
		return
	case isUnsaved && incomplete:
		*outcome = unknownOutcome(unsaved)
	}
	if err := checkQuestions(outcome.Questions); err != nil {
		*outcome = unknownOutcome(err)
	}
	cancelled := errors.Is(cause, ErrCancelled) && incomplete
	ctx, stop := context.WithDeadline(r.engine.working, r.until)
	defer stop()
	var pause backoff.Backoff
	var written part
	replaced := false
	for {
		err := r.conclude(cancelled, outcome, &written)
		switch {
		case errors.Is(err, errSealed):
			r.engine.config.Logger.Error("the outcome of a task is lost, since this replica has lost its key", "error", err)
			r.engine.worker.HandBack(r.job, delay(r.job.Attempt))
			return
		case err == nil, errors.Is(err, ErrUnknown): // stored, or expired
			if failed && r.outcomeLost.Load() {
				r.engine.noteAbandoned("an earlier attempt may have made the call, and has left no outcome")
			}
			r.engine.worker.Finish(r.job)
			return
		case errors.Is(err, errLost):
			return
		case noRoom(err) && r.useRoom():
			continue
		case noRoom(err) && !replaced && (errors.Is(err, store.ErrTooLarge) || outcome.size() > outcomeRoom):
			_ = r.engine.drop(context.Background(), r.ID, written)
			replaced, written = true, part{}
			*outcome = unstored(outcome, err)
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

// unstored returns the outcome of a call whose own outcome cannot be stored because of err.
func unstored(outcome *Outcome, err error) Outcome {
	executed := "the call was executed, but its outcome with %d bytes cannot be stored: %v"
	switch {
	case outcome.Questions != nil:
		executed = "the call may have been executed: its questions and its state with %d bytes cannot be stored: %v"
	case outcome.Error != nil: // it may be the error of a check before the function
		executed = "the call may have been executed: its error with %d bytes cannot be stored: %v"
	}
	return Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf(executed, outcome.size(), err)}}
}

// unknownOutcome returns the outcome of a call that may have changed something, if its own outcome or a value of it
// cannot be stored.
func unknownOutcome(err error) Outcome {
	return Outcome{Error: &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the call may have been executed: " + err.Error()}}
}

// useRoom frees the room that is reserved for the outcome. It returns false if there is none, or if that fails.
func (r *Run) useRoom() bool {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	if r.room.Chunks == 0 || r.engine.drop(context.Background(), r.ID, r.room) != nil {
		return false
	}
	r.room = part{}
	return true
}

// conclude stores the outcome. written is its result or state, once that is stored.
func (r *Run) conclude(cancelled bool, outcome *Outcome, written *part) error {
	ctx, e := context.Background(), r.engine
	value, what, kept := outcome.Result, "result", partOutcome
	if outcome.Questions != nil {
		value, what, kept = outcome.State, "state", partState
	}
	if !cancelled && written.isEmpty() {
		if err := e.kept.setOutcome(r.ID, kept, outcome.size()); err != nil {
			return err
		}
	}
	if !cancelled && outcome.Error == nil && written.isEmpty() {
		stored, err := e.records.write(ctx, r.ID, what, value, r.until)
		if err != nil {
			return err
		}
		*written = stored
	}
	rec, err := r.update(ctx, func(rec *record) {
		r.reported(rec)
		switch {
		case outcome.Questions != nil && rec.Unknown: // the client may have been told that the task has ended
		case cancelled, outcome.Questions != nil && rec.Cancelled:
			rec.end(mcp.TaskCancelled, cancelledMessage)
		case outcome.Questions != nil:
			rec.State, rec.Room, rec.Begun, rec.Lapsed = *written, part{}, false, false
			rec.Status, rec.Questions, rec.Answers = mcp.TaskInputRequired, outcome.Questions, nil
		case outcome.Error != nil:
			rec.fail(outcome.Error)
		default:
			rec.end(mcp.TaskCompleted, rec.Message)
			rec.Result = *written
		}
		rec.Unknown = false
	})
	if err == nil || errors.Is(err, errLost) { // otherwise the record may name what was written
		e.dropExcept(ctx, r.ID, []part{*written}, rec.parts())
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
