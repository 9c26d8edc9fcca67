package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// keyPrefix is the prefix of the keys of records: task/<id>, with the parts of a record below it.
	keyPrefix = "task/"
	// maxInline is the size in bytes up to which a part is in the record itself.
	maxInline = 64 << 10
	// chunkSize is the size in bytes of the pieces of a larger part.
	chunkSize = 256 << 10
	// maxPart is the maximum size in bytes of a part: of the call, its state or its result.
	maxPart = 16 << 20
	// outcomeRoom is the size in bytes of the room that a run reserves in the store for its outcome.
	outcomeRoom = 4 << 10
	// maxMessage is the maximum size in bytes of a status message. A longer one is cut.
	maxMessage = 4 << 10
	// maxQuestions is the maximum size in bytes of the open questions of a task.
	maxQuestions = 128 << 10
	// keptLonger is how much longer than its task a chunk is stored, so that clocks may differ.
	keptLonger = time.Minute
)

// A record is the state of a task in the store.
type record struct {
	Principal string         `json:"principal,omitempty"`
	Network   string         `json:"network,omitzero"` // of a client without Principal
	Status    mcp.TaskStatus `json:"status"`
	Message   string         `json:"message,omitempty"`
	Progress  *Progress      `json:"progress,omitempty"`
	Created   time.Time      `json:"created"`
	Updated   time.Time      `json:"updated"`
	TTL       time.Duration  `json:"ttl"`
	Cancelled bool           `json:"cancelled,omitempty"` // the client has asked to cancel the task

	// Round counts the jobs of the task from 1: the first run, and one after each answered round of
	// questions. Started is the last round of which a run has begun. Attempt counts the runs; only the last
	// may change the record.
	Round   int `json:"round"`
	Started int `json:"started,omitempty"`
	Attempt int `json:"attempt,omitempty"`

	// Begun says that the function of the call has begun in this attempt. Of the attempts that have ended without an
	// outcome, Restarts counts the attempts in which the function had begun, Vanished the attempts in which it had not
	// begun, and HandedBack the attempts that a worker has ended itself. Lapsed says that the lease of the attempt has
	// ended, and that the attempt has not reported since. Unknown says that the task has failed because its attempt
	// lapsed: the attempt may still replace the failure by its outcome.
	Begun       bool `json:"begun,omitempty"`
	MaxRestarts int  `json:"maxRestarts,omitempty"`
	Restarts    int  `json:"restarts,omitempty"`
	Vanished    int  `json:"vanished,omitempty"`
	HandedBack  int  `json:"handedBack,omitempty"`
	Lapsed      bool `json:"lapsed,omitempty"`
	Unknown     bool `json:"unknown,omitempty"`

	Questions map[string]mcp.InputRequest `json:"questions,omitempty"` // without an answer
	Answers   map[string]part             `json:"answers,omitempty"`   // for the next run
	Call      part                        `json:"call"`
	State     part                        `json:"state"`
	Result    part                        `json:"result"`
	Room      part                        `json:"room"` // reserved for the outcome
	Error     json.RawMessage             `json:"error,omitempty"`
}

// A Progress is the last progress that a task has reported.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"` // 0 if it is unknown
}

// A part is a JSON value of a record. A large one is stored in chunks, under keys of its own that are
// never written again.
type part struct {
	Inline json.RawMessage `json:"inline,omitempty"`
	Name   string          `json:"name,omitempty"` // of the chunks
	Chunks int             `json:"chunks,omitempty"`
	Size   int             `json:"size,omitempty"` // of the chunks in bytes
}

// holder returns the client that has a share of limits.
func (r *record) holder() quota.Holder { return quota.HolderOf(r.Principal, r.Network) }

// until returns when the record ends.
func (r *record) until() time.Time { return r.Created.Add(r.TTL) }

// isQueued reports whether the task waits for a worker.
func (r *record) isQueued() bool { return r.Status == mcp.TaskWorking && r.Started < r.Round }

// end ends the task. It keeps what the client may still ask for.
func (r *record) end(status mcp.TaskStatus, message string) {
	r.Status, r.Message = status, message
	r.Questions, r.Answers, r.Error = nil, nil, nil
	r.Call, r.State, r.Room = part{}, part{}, part{}
}

// fail ends the task with an error.
func (r *record) fail(err *jsonrpc.Error) {
	r.end(mcp.TaskFailed, peertext.Cut(err.Message, maxMessage))
	r.Error = encodeError(err)
}

// A claim is the action of a worker with a job.
type claim int

const (
	obsolete claim = iota // nothing: the task has ended, or waits, or has a later job
	ended                 // nothing: the task has ended now
	waits                 // later: the last attempt may be alive
	runs                  // the next attempt is the attempt of the worker
)

// claim returns the action of a worker that has a job of a round, and records the action. An attempt whose lease has
// ended may be alive, because its replica may only have lost the store. Therefore the first worker that gets the job
// again waits. An attempt that has not reported until the job is delivered once more has ended.
func (r *record) claim(round int) claim {
	switch {
	case r.Status != mcp.TaskWorking || r.Round != round:
		return obsolete
	case r.Started < round:
	case !r.Lapsed:
		r.Lapsed = true
		return waits
	default:
		r.lose()
		if r.Status.Ended() {
			return ended
		}
	}
	if r.Cancelled {
		r.end(mcp.TaskCancelled, cancelledMessage)
		return ended
	}
	r.Started, r.Begun, r.Lapsed = round, false, false
	r.Attempt++
	return runs
}

const (
	// maxVanished is how many attempts may vanish before the function has begun.
	maxVanished = 10
	// maxHandedBack is how often workers may hand back a task.
	maxHandedBack = 100
)

// lose records that an attempt has vanished. The task fails if it may not have another one.
func (r *record) lose() {
	switch {
	case r.Begun:
		r.restart(errServerEnded)
	case r.Vanished >= maxVanished:
		r.failUnbegun(errNeverBegun)
	default:
		r.Vanished++
		r.queue()
	}
}

// handBack records that a worker ends an attempt without an outcome. begun says whether the function has begun.
// The task fails if it may not have another one.
func (r *record) handBack(begun bool) {
	switch {
	case begun:
		r.restart(errInterrupted)
	case r.HandedBack >= maxHandedBack:
		r.failUnbegun(errNoReplica)
	default:
		r.HandedBack++
		r.queue()
	}
}

// restart makes the function begin again, or fails if it may not.
func (r *record) restart(reason *jsonrpc.Error) {
	if r.Restarts >= r.MaxRestarts {
		r.fail(reason)
		r.Unknown = true
		return
	}
	r.Restarts++
	r.queue()
}

// queue makes the task wait for a worker, unless it was cancelled.
func (r *record) queue() {
	if r.Cancelled {
		r.end(mcp.TaskCancelled, cancelledMessage)
		return
	}
	r.Started, r.Begun, r.Lapsed, r.Room = r.Round-1, false, false, part{}
}

// failUnbegun fails because too many attempts have ended before the function had begun. It may have begun earlier:
// before questions, or in an attempt that was lost.
func (r *record) failUnbegun(reason *jsonrpc.Error) {
	if r.Round > 1 || r.Restarts > 0 {
		reason = errServerEnded
	}
	r.fail(reason)
}

// Errors of tasks that have ended without an outcome.
var (
	errServerEnded = &jsonrpc.Error{
		Code:    jsonrpc.InternalError,
		Message: "the call may have been executed: the server that ran it has ended, or was cut off, before it had stored the outcome; the tool does not run again",
	}
	errInterrupted = &jsonrpc.Error{
		Code:    jsonrpc.InternalError,
		Message: "the call may have been executed: it was interrupted by the shutdown of a server before it had an outcome; the tool does not run again",
	}
	errNeverBegun = &jsonrpc.Error{
		Code:    jsonrpc.InternalError,
		Message: "the call was not executed: each server that was about to run it has ended",
	}
	errNoReplica = &jsonrpc.Error{
		Code:    jsonrpc.InternalError,
		Message: "the call was not executed: no server could run it",
	}
)

// parts returns the parts of the record.
func (r *record) parts() []part {
	parts := append(make([]part, 0, 4+len(r.Answers)), r.Call, r.State, r.Result, r.Room)
	return slices.AppendSeq(parts, maps.Values(r.Answers))
}

func keyOf(id string) string { return keyPrefix + id }

// A SizeError says that a part of a task is too large to be stored.
type SizeError struct {
	Part      string
	Size, Max int // in bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("the %s of the task has %d bytes, at most %d can be stored", e.Part, e.Size, e.Max)
}

// records reads and writes records and their parts.
type records struct {
	state.Records[record]
	kv  store.KV
	key *state.Key
}

func newRecords(kv store.KV, key *state.Key) records {
	return records{state.NewRecords[record](kv, key), kv, key}
}

// errSealed means that another replica has sealed the record with a key that this server does not have.
var errSealed = fmt.Errorf("%w: its record cannot be opened with the keys of this server", ErrUnknown)

// errorOf returns the error of an operation with a record: [ErrUnknown], errSealed, or the error of the store.
func errorOf(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrUnknown
	case errors.Is(err, token.ErrForged):
		return errSealed
	}
	return err
}

func (r *records) load(ctx context.Context, id string) (*record, error) {
	if store.CheckName(id) != nil {
		return nil, ErrUnknown
	}
	stored, err := r.Load(ctx, keyOf(id))
	if err != nil {
		return nil, errorOf(err)
	}
	return &stored.Value, nil
}

// update changes a record. change gets the current record, and may be called several times; if it
// returns false, nothing is written. The result is the record that is stored now. Chunks that it does not name
// any more are deleted.
func (r *records) update(ctx context.Context, id string, change func(*record) bool) (*record, error) {
	stored, err := r.updateFrom(ctx, id, nil, change)
	if err != nil {
		return nil, err
	}
	return &stored.Value, nil
}

// updateFrom is update, but reads the record only if it is not the known one any more. change must not modify the maps
// of a record.
func (r *records) updateFrom(ctx context.Context, id string, known *state.Record[record], change func(*record) bool) (*state.Record[record], error) {
	var before []part
	stored, err := r.UpdateFrom(ctx, keyOf(id), known, func(stored *state.Record[record]) error {
		rec := &stored.Value
		before = rec.parts()
		if !change(rec) {
			before = nil
			return state.ErrUnchanged
		}
		rec.Updated = time.Now()
		return nil
	})
	if err != nil {
		return nil, errorOf(err)
	}
	r.dropExcept(ctx, id, before, stored.Value.parts())
	return stored, nil
}

// write stores a part. what names it in errors.
func (r *records) write(ctx context.Context, id, what string, value json.RawMessage, until time.Time) (part, error) {
	if len(value) > maxPart {
		return part{}, &SizeError{what, len(value), maxPart}
	}
	if len(value) <= maxInline {
		return part{Inline: value}, nil
	}
	return r.writeChunks(ctx, id, what, value, until)
}

func (r *records) createChunk(ctx context.Context, key string, sealed []byte, until time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	_, err := r.kv.Create(ctx, key, sealed, time.Until(until)+keptLonger)
	return err
}

// writeChunks stores a part in chunks. Each may take operationTimeout. After an error, chunks that may be stored are
// deleted.
func (r *records) writeChunks(ctx context.Context, id, what string, value []byte, until time.Time) (p part, err error) {
	p.Name, p.Size = rand.Text(), len(value)
	defer func() {
		if err != nil {
			p.Chunks++ // the last one may be stored too
			_ = r.drop(ctx, id, p)
			p = part{}
		}
	}()
	for len(value) > 0 {
		chunk := value[:min(len(value), chunkSize)]
		value = value[len(chunk):]
		key := p.key(id, p.Chunks)
		sealed, err := r.key.SealBytes(ctx, chunk, token.Binding("task", key))
		if err != nil {
			return p, err
		}
		if err := r.createChunk(ctx, key, sealed, until); err != nil {
			return p, fmt.Errorf("storing the %s of the task: %w", what, err)
		}
		p.Chunks++
	}
	return p, nil
}

// size returns the size of the part in bytes.
func (p *part) size() int64 { return int64(len(p.Inline) + p.Size) }

func (p *part) isEmpty() bool { return p.Inline == nil && p.Chunks == 0 }

func (p *part) key(id string, chunk int) string {
	return fmt.Sprintf("%s%s/%s/%d", keyPrefix, id, p.Name, chunk)
}

// read returns the value of a part.
func (r *records) read(ctx context.Context, id string, p *part) (json.RawMessage, error) {
	if p.Chunks == 0 {
		return p.Inline, nil
	}
	var value []byte
	for i := range p.Chunks {
		key := p.key(id, i)
		item, err := r.getChunk(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("reading a part of the task: %w", err)
		}
		chunk, err := r.key.OpenBytes(ctx, item.Value, token.Binding("task", key))
		if err != nil {
			return nil, fmt.Errorf("opening a part of the task: %w", err)
		}
		value = append(value, chunk...)
	}
	return value, nil
}

func (r *records) getChunk(ctx context.Context, key string) (store.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return r.kv.Get(ctx, key)
}

// drop deletes the chunks of a part that no record names. What remains after an error expires.
func (r *records) drop(ctx context.Context, id string, p part) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
	defer cancel()
	var failed error
	for i := range p.Chunks {
		failed = errors.Join(failed, r.kv.Delete(ctx, p.key(id, i), 0))
	}
	return failed
}

// dropExcept deletes the chunks of parts, except the chunks of kept.
func (r *records) dropExcept(ctx context.Context, id string, parts, kept []part) {
	for _, p := range parts {
		if p.Chunks > 0 && !slices.ContainsFunc(kept, func(k part) bool { return k.Name == p.Name }) {
			_ = r.drop(ctx, id, p)
		}
	}
}
