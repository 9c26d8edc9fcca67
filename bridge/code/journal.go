package code

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A script that asks runs again, from its beginning, when there is an answer. It then has to do the same: it is given the same
// time and random numbers, and the same results in the same order. So a run is a function of its source and of a history.

// A history is what determines a run.
type history struct {
	Began int64          `json:"began"` // Unix milliseconds
	Seed  uint64         `json:"seed"`
	Calls []recordedCall `json:"calls,omitempty"` // in the order in which the script has made them
	// Delivered has the numbers of the calls, from 1, in the order in which the script got the results, and the times.
	Delivered []delivery `json:"delivered,omitempty"`
}

// A recordedCall is a call that a script has made.
type recordedCall struct {
	Digest  string   `json:"digest"`          // of the function and the arguments
	Begun   bool     `json:"begun,omitempty"` // a tool that must not run twice has begun
	Outcome *outcome `json:"outcome,omitempty"`
}

// A delivery is the moment at which a script gets the result of a call.
type delivery struct {
	Call int   `json:"call"`
	Time int64 `json:"time"` // Unix milliseconds
}

// An outcome is how a call has ended: a result, or an error.
type outcome struct {
	Result  json.RawMessage `json:"result,omitempty"` // as the server has sent it
	Error   string          `json:"error,omitempty"`
	Unknown bool            `json:"unknown,omitempty"` // the call may have been executed
	Lost    bool            `json:"lost,omitempty"`    // the result is not kept: it is too large, or the client has it
	Apart   string          `json:"apart,omitempty"`   // the digest of the result, which is in a record of its own
}

func digestOf(parts ...string) string {
	digest := sha256.Sum256(token.Binding(parts...))
	return base64.RawURLEncoding.EncodeToString(digest[:16])
}

// A savedRun is a history in the store. Whoever has changed it last continues the run.
type savedRun struct {
	Pauses  int             `json:"pauses"`
	Ended   bool            `json:"ended,omitempty"`
	History json.RawMessage `json:"history,omitempty"`
}

// A clientState is what the client carries while a script waits for an answer.
type clientState struct {
	Pauses  int             `json:"pauses"`
	History json.RawMessage `json:"history,omitempty"` // without a shared store
}

const (
	// stateKey is the key of the clientState in the call.
	stateKey = "io.dovetail/script"
	// keptFor is how long the history is kept, from the last change: a client's state is valid for as long.
	keptFor = time.Hour
	// maxKept is the size in bytes of the largest result that is kept in a store: the value of a record, and what surrounds it.
	maxKept = store.MaxValue - 1<<10
	// apartSize is the size in bytes above which a result has a record of its own.
	apartSize = 16 << 10
	// storeTimeout bounds what is written when the call has ended.
	storeTimeout = 5 * time.Second
)

// A failure is why a script has failed, in words for the model.
type failure struct{ text string }

// Error returns the text.
func (f *failure) Error() string { return f.text }

func failuref(format string, args ...any) error { return &failure{fmt.Sprintf(format, args...)} }

// Failures of a run that cannot continue.
var (
	errContinued = failuref("the script was continued elsewhere with the same answers")
	errSpent     = failuref("the script cannot be continued with these answers: it has continued or ended already, or waited for more than an hour. Its calls were made")
	errDiverged  = failuref("the script cannot be continued: it makes other calls than before its question, or the tools have changed. The calls before the question were made")
)

// A journal keeps the history of a run. Its methods may be called concurrently.
type journal struct {
	provider *provider
	call     *mcp.Call
	key      string

	mu      sync.Mutex
	history history
	size    int // bytes of results and errors in the history
	pauses  int
	apart   map[int]string          // the digests of results that are in records, by the numbers of calls
	saved   *state.Record[savedRun] // nil until something is in the store
	failed  error                   // another run has continued this one
}

// openJournal returns the journal of a call, with the history of its earlier runs.
func (p *provider) openJournal(ctx context.Context, call *mcp.Call) (*journal, error) {
	j := &journal{provider: p, call: call, apart: make(map[int]string), key: "script/run/" + digestOf("run of a script", call.ID())}
	var carried *clientState
	if text, ok := call.Load(stateKey); ok {
		if err := json.Unmarshal(text, &carried); err != nil {
			return nil, err
		}
	}
	if carried == nil && call.TaskID() == "" {
		j.history = history{Began: time.Now().UnixMilli(), Seed: rand.Uint64()} //nolint:gosec // scripts get no secrets from it
		return j, nil
	}
	var err error
	switch j.saved, err = p.records.Load(ctx, j.key); {
	case errors.Is(err, store.ErrNotFound) && carried == nil:
		j.saved = nil
		j.history = history{Began: time.Now().UnixMilli(), Seed: rand.Uint64()} //nolint:gosec // scripts get no secrets from it
		return j, nil
	case errors.Is(err, store.ErrNotFound) && carried.History != nil:
		j.saved, j.pauses = nil, carried.Pauses
		err = json.Unmarshal(carried.History, &j.history)
	case errors.Is(err, store.ErrNotFound):
		return nil, errSpent
	case err != nil:
		return nil, err
	case j.saved.Value.Ended || carried != nil && carried.Pauses != j.saved.Value.Pauses:
		return nil, errSpent
	default:
		j.pauses = j.saved.Value.Pauses
		err = json.Unmarshal(j.saved.Value.History, &j.history)
		if err == nil && carried != nil && carried.History != nil {
			err = j.addResults(carried.History)
		}
	}
	if err == nil {
		err = j.loadApart(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range j.history.Calls {
		j.size += c.Outcome.size()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j, j.save(ctx, false) // an earlier run that has not ended cannot continue now
}

// addResults adds the results that the client has carried.
func (j *journal) addResults(encoded json.RawMessage) error {
	var carried history
	if err := json.Unmarshal(encoded, &carried); err != nil {
		return err
	}
	for i, c := range carried.Calls {
		if i < len(j.history.Calls) && c.Outcome != nil {
			j.history.Calls[i].Outcome = c.Outcome
		}
	}
	return nil
}

// keyOf returns the key of the record with a result. A tool that may run again may return another result in a later run, which
// has another record.
func (j *journal) keyOf(digest string) string { return j.key + "/" + digest }

// loadApart loads the results that have records of their own.
func (j *journal) loadApart(ctx context.Context) error {
	for i := range j.history.Calls {
		c := &j.history.Calls[i]
		if c.Outcome == nil || c.Outcome.Apart == "" {
			continue
		}
		digest := c.Outcome.Apart
		loaded, err := j.provider.results.Load(ctx, j.keyOf(digest))
		if err != nil {
			return err
		}
		c.Outcome, j.apart[i+1] = &outcome{Result: loaded.Value}, digest
	}
	return nil
}

// saveApart returns the history in which large results are left out. They are stored in records of their own.
func (j *journal) saveApart(ctx context.Context, until time.Time) (*history, error) {
	short := j.history
	short.Calls = slices.Clone(j.history.Calls)
	for i, c := range short.Calls {
		if c.Outcome.size() <= apartSize {
			continue
		}
		if j.apart[i+1] == "" {
			digest := digestOf("result of a call", string(c.Outcome.Result))
			_, err := j.provider.results.Create(ctx, j.keyOf(digest), c.Outcome.Result, until.Add(10*keptFor)) // a call asks in at most 10 rounds
			if err != nil && !errors.Is(err, store.ErrExists) {
				return nil, err
			}
			j.apart[i+1] = digest
		}
		short.Calls[i].Outcome = &outcome{Apart: j.apart[i+1]}
	}
	return &short, nil
}

// withoutResults returns the history that is kept while the client carries the results.
func (h *history) withoutResults() *history {
	short := *h
	short.Calls = slices.Clone(h.Calls)
	for i, c := range short.Calls {
		if c.Outcome != nil {
			short.Calls[i].Outcome = &outcome{Lost: true}
		}
	}
	return &short
}

// size returns the number of bytes that an outcome counts for Limits.State.
func (o *outcome) size() int {
	if o == nil {
		return 0
	}
	return len(o.Result) + len(o.Error)
}

// failure returns why the run cannot go on, or nil.
func (j *journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// save writes the history, also when the call has ended. j.mu is held. After any error except errContinued, a later call may
// succeed.
func (j *journal) save(ctx context.Context, ended bool) error {
	if j.failed != nil {
		return j.failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	value, until := savedRun{Pauses: j.pauses, Ended: ended}, time.Now().Add(keptFor)
	if !ended {
		kept, err := j.history.withoutResults(), error(nil)
		if j.provider.shared {
			kept, err = j.saveApart(ctx, until)
		}
		if err == nil {
			value.History, err = jsonvalue.Marshal(kept)
		}
		if err != nil {
			return err
		}
	}
	saved, err := j.write(ctx, value, until)
	switch {
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrNotFound), errors.Is(err, errContinued):
		j.failed = errContinued
		return j.failed
	case err != nil:
		return err
	}
	j.saved = saved
	return nil
}

func (j *journal) write(ctx context.Context, value savedRun, until time.Time) (*state.Record[savedRun], error) {
	records, known := j.provider.records, j.saved
	if known == nil {
		return records.Create(ctx, j.key, value, until)
	}
	return records.UpdateFrom(ctx, j.key, known, func(r *state.Record[savedRun]) error {
		if r.Revision() != known.Revision() {
			return errContinued
		}
		r.Value, r.Until = value, until
		return nil
	})
}

// made records that the script makes its next call, or compares the call with the history. It returns what the history has.
func (j *journal) made(number int, digest string) (recordedCall, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if number > len(j.history.Calls) {
		j.history.Calls = append(j.history.Calls, recordedCall{Digest: digest})
	}
	made := j.history.Calls[number-1]
	if made.Digest != digest {
		return made, errDiverged
	}
	return made, nil
}

// begin records that the tool of a call begins, if it must not run twice. It returns an error if another run continues the script.
func (j *journal) begin(ctx context.Context, number int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history.Calls[number-1].Begun = true
	if j.saved == nil && (j.call.TaskID() == "" || !j.provider.shared) {
		return nil // nobody can begin this run again
	}
	return j.save(ctx, false)
}

// asked records that a call that may have begun waits for an answer, and begins again.
func (j *journal) asked(number int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history.Calls[number-1].Begun = false
}

// ended records the outcome of a call. After a call that must not run twice, the history is written.
func (j *journal) ended(ctx context.Context, number int, o *outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.history.Calls[number-1]
	c.Outcome = o
	if j.size += o.size(); j.size > j.provider.options.Limits.State || j.provider.shared && o.size() > maxKept {
		j.size -= o.size()
		c.Outcome = &outcome{Lost: true}
	}
	if !c.Begun || j.saved == nil {
		return
	}
	if err := j.save(ctx, false); err != nil && !errors.Is(err, errContinued) { // written again with the next change
		j.provider.options.Logger.Warn("the result of a call of a script cannot be kept at this time", "error", err)
	}
}

// madeAll reports whether the run has made all calls of the history.
func (j *journal) madeAll(calls int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return calls >= len(j.history.Calls)
}

// next returns the number of the call whose result the script gets as the given delivery, from 0, or 0 if the history has no
// such delivery.
func (j *journal) next(delivered int) (call int, at int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if delivered == len(j.history.Delivered) {
		return 0, 0
	}
	d := j.history.Delivered[delivered]
	return d.Call, d.Time
}

// isDelivered reports whether the history says when the script gets the result of a call.
func (j *journal) isDelivered(call int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.history.Delivered, func(d delivery) bool { return d.Call == call })
}

// delivered records that the script gets the result of a call, and returns the time for the script.
func (j *journal) delivered(call int) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := delivery{call, time.Now().UnixMilli()}
	j.history.Delivered = append(j.history.Delivered, d)
	return d.Time
}

// pause keeps the history until the caller has answered.
func (j *journal) pause(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for number, c := range j.history.Calls {
		if c.Outcome != nil && c.Outcome.Lost {
			return failuref("the results before call %d have more than %d bytes and cannot be kept while a person is asked. "+
				"Make the calls that ask first, or in another script", number+2, j.provider.options.Limits.State)
		}
	}
	j.pauses++
	if err := j.save(ctx, false); err != nil {
		return err
	}
	carried := clientState{Pauses: j.pauses}
	if !j.provider.shared {
		encoded, err := jsonvalue.Marshal(&j.history)
		if err != nil {
			return err
		}
		carried.History = encoded
	}
	text, err := jsonvalue.Marshal(carried)
	if err != nil {
		return err
	}
	j.call.Store(stateKey, text)
	return nil
}

// interrupted keeps what has ended when a run stops that another run continues.
func (j *journal) interrupted(ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.saved == nil {
		return
	}
	if err := j.save(ctx, false); err != nil {
		j.provider.options.Logger.Warn("what a script has done cannot be kept", "error", err)
	}
}

// close notes that the script has ended, so that no old state continues it.
func (j *journal) close(ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.saved == nil {
		return
	}
	if err := j.save(ctx, true); err != nil {
		j.provider.options.Logger.Warn("the end of a script cannot be kept", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	for _, digest := range j.apart {
		if err := j.provider.results.Delete(ctx, j.keyOf(digest), nil); err != nil {
			return // it lapses
		}
	}
}
