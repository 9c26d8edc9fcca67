package code

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/bridge/code/internal/quickjs"
	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/mcp"
)

// A run is one run of a script: from its beginning to its end, or to a question. One goroutine computes, starts the calls and
// gives the script their results, one at a time.
type run struct {
	provider *provider
	call     *mcp.Call // of ScriptTool
	client   quota.Holder
	source   string
	digest   string // the beginning of the SHA-256 of the source that the model has sent
	journal  *journal
	names    *namespace
	reports  atomic.Int64

	script    *quickjs.Script
	left      time.Duration // for computing
	random    *rand.Rand
	now       int64 // the time for the script, in Unix milliseconds
	delivered int   // results that the script has got

	calls    []*toolCall // all, in order
	started  int         // calls that have been looked at
	waiting  []*toolCall // calls that wait until others have ended
	parallel int         // calls that run
	ready    []*toolCall // calls that have ended, whose results the script has not got
	ended    chan *toolCall
	running  sync.WaitGroup

	console output
	media   media
	end     *ending // nil while the script runs
}

// errComputing is the cause when a script has computed for too long.
var errComputing = failuref("the script has computed for too long")

// errScriptEnded is the cause when a script has ended before one of its calls.
var errScriptEnded = errors.New("the script has ended")

// runScript runs a script until it ends or a call asks. The error is for the model, or contains a question.
func (p *provider) runScript(ctx context.Context, call *mcp.Call, source string) (*run, error) {
	holder := quota.HolderOf(call.Caller.Principal, call.Caller.Network)
	if err := p.open.Acquire(holder); err != nil {
		return nil, err
	}
	defer p.open.Release(holder)
	catalog := p.source.Catalog()
	r := &run{
		provider: p, call: call, client: holder, source: source, digest: sourceDigest(source), names: namesOf(catalog), left: p.options.Limits.Computing,
		console: output{most: p.options.Limits.Console}, media: media{left: p.options.Limits.CallResult},
		ended: make(chan *toolCall, p.options.Limits.Calls),
	}
	var err error
	if r.journal, err = p.openJournal(ctx, call); err != nil {
		return r, err
	}
	r.now = r.journal.history.Began
	r.random = rand.New(rand.NewPCG(r.journal.history.Seed, 0)) //nolint:gosec // Math.random of the script
	err = r.execute(ctx, r.names.visible(ctx, catalog, call.Caller))
	switch _, asks := mcp.AsInputRequired(err); {
	case asks:
		if paused := r.journal.pause(ctx); paused != nil {
			return r, paused
		}
		return r, err
	case err != nil && ctx.Err() != nil:
		r.journal.interrupted(ctx)
		return r, context.Cause(ctx)
	}
	if err == nil && !r.journal.madeAll(len(r.calls)) {
		err = errDiverged
	}
	r.journal.close(ctx)
	return r, err
}

func sourceDigest(source string) string {
	digest := sha256.Sum256([]byte(source))
	return hex.EncodeToString(digest[:6])
}

// execute runs the script until it has ended, or until all its calls ask.
func (r *run) execute(ctx context.Context, functions map[string]map[string]string) error {
	calling, cancel := context.WithCancelCause(ctx)
	defer r.running.Wait()
	defer cancel(errScriptEnded)
	err := r.begin(ctx, functions)
	defer func() {
		if r.script != nil {
			r.script.Close()
		}
	}()
	for err == nil && r.end == nil {
		var next *toolCall
		if next, err = r.next(ctx, calling); err == nil {
			parts := r.delivery(next)
			err = r.compute(ctx, func(ctx context.Context) error { return r.script.Deliver(ctx, parts...) })
		}
	}
	return err
}

// begin begins the script. A source with a syntax error is transpiled.
func (r *run) begin(ctx context.Context, functions map[string]map[string]string) error {
	err := r.evaluate(ctx, functions)
	transpile := r.provider.options.Transpile
	if thrown, ok := errors.AsType[*quickjs.ScriptError](err); !ok || transpile == nil || !thrown.Syntax {
		return err
	}
	r.script.Close()
	if r.source, err = transpile(ctx, r.source); err != nil {
		return &failure{"SyntaxError: " + err.Error()}
	}
	return r.evaluate(ctx, functions)
}

// evaluate starts an interpreter that evaluates the source. The numbers of its lines are those of the source.
func (r *run) evaluate(ctx context.Context, functions map[string]map[string]string) (err error) {
	limits := r.provider.options.Limits
	begin, err := json.Marshal(map[string]any{
		"servers": functions, "limits": map[string]int{"calls": limits.Calls, "arguments": limits.CallResult},
	})
	if err != nil {
		return err
	}
	return r.compute(ctx, func(ctx context.Context) error {
		if r.script, err = r.provider.options.Engine.machine.Start(ctx, r); err != nil {
			return err
		}
		if err := r.script.Deliver(ctx, "begin", string(begin)); err != nil {
			return err
		}
		return r.script.Run(ctx, "(async () => {"+r.source+"\n})", "script.js")
	})
}

// compute lets the script compute.
func (r *run) compute(ctx context.Context, step func(ctx context.Context) error) error {
	if err := r.provider.turns.take(ctx, r.client); err != nil {
		return err
	}
	defer r.provider.turns.giveBack()
	begun := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, r.left, errComputing)
	defer cancel()
	err := step(bounded)
	r.left -= time.Since(begun)
	if errors.Is(err, errComputing) || err == nil && r.left <= 0 {
		return fmt.Errorf("%w: %v. Let the tools do the work, or do less", errComputing, r.provider.options.Limits.Computing)
	}
	return err
}

// next starts the calls that the script has made, and returns the one whose result it gets next. The error contains the
// questions if all calls that run ask.
func (r *run) next(ctx, calling context.Context) (*toolCall, error) {
	for {
		if err := r.startCalls(calling); err != nil {
			return nil, err
		}
		number, at := r.journal.next(r.delivered)
		if number > len(r.calls) {
			return nil, errDiverged
		}
		if number > 0 && r.calls[number-1].outcome != nil {
			r.delivered++
			r.now = at
			return r.calls[number-1], nil
		}
		if number == 0 && len(r.ready) > 0 {
			c := r.ready[0]
			r.ready = r.ready[1:]
			r.delivered++
			r.now = r.journal.delivered(c.number)
			return c, nil
		}
		if r.parallel == 0 {
			return nil, r.stuck()
		}
		select {
		case c := <-r.ended:
			r.parallel--
			if c.outcome != nil {
				r.ready = append(r.ready, c)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// stuck returns the questions of all calls, or an error if the script waits for nothing that can happen.
func (r *run) stuck() error {
	var questions []error
	for _, c := range r.calls {
		if c.asks != nil {
			questions = append(questions, c.asks)
		}
	}
	if questions == nil {
		return failuref("the script waits for a promise that nothing resolves")
	}
	return errors.Join(questions...)
}

// startCalls looks at the calls that the script has made, and starts as many as may run.
func (r *run) startCalls(ctx context.Context) error {
	for ; r.started < len(r.calls); r.started++ {
		c := r.calls[r.started]
		recorded, err := r.journal.made(c.number, c.digest())
		if err != nil {
			return err
		}
		if c.outcome = c.known(&recorded); c.outcome == nil {
			r.waiting = append(r.waiting, c)
			continue
		}
		if recorded.Outcome == nil {
			r.journal.ended(ctx, c.number, c.outcome)
		}
		if !r.journal.isDelivered(c.number) {
			r.ready = append(r.ready, c)
		}
	}
	for len(r.waiting) > 0 && r.parallel < r.provider.options.Limits.Parallel {
		c := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.parallel++
		r.running.Go(func() {
			c.execute(ctx)
			r.ended <- c
		})
	}
	return r.journal.failure()
}

// known returns the outcome of a call that is not made now: it cannot be, or was made before. Otherwise it returns nil.
func (c *toolCall) known(recorded *recordedCall) *outcome {
	switch {
	case recorded.Outcome != nil && recorded.Outcome.Lost:
		return &outcome{Error: "the call was made before the script was interrupted, and its result was too large to be kept", Unknown: true}
	case recorded.Outcome != nil:
		return recorded.Outcome
	case recorded.Begun:
		return &outcome{Error: "the call was sent before the script was interrupted. It may have been executed, and is not sent again", Unknown: true}
	case c.function == nil:
		return &outcome{Error: "there is no tool " + c.text}
	case c.refused != "":
		return &outcome{Error: c.refused}
	}
	return nil
}

// delivery returns what the script gets of the outcome of a call. The result is not needed afterwards.
func (r *run) delivery(c *toolCall) []string {
	c.delivered = true
	number, o := fmt.Sprint(c.number), c.outcome
	if o.Result != nil {
		value, err := r.media.valueOf(c.number, o.Result)
		if err == nil {
			c.outcome = &outcome{}
			return []string{"result", number, string(value)}
		}
		o = &outcome{Error: cmp.Or(err.Error(), "the tool has failed, and does not say why")}
		c.outcome = o // the journal has the result
	}
	kind := "failed"
	if o.Unknown {
		kind = "unknown"
	}
	return []string{"error", number, kind, o.Error}
}

var _ quickjs.Host = (*run)(nil)

// Now returns the time of the last result. It does not go on while the script computes, so that it is the same in each run.
func (r *run) Now() int64 { return r.now * int64(time.Millisecond) }

// Random returns the next number of a sequence that is the same in each run.
func (r *run) Random() float64 { return r.random.Float64() }

// maxErrorText is how many bytes of the error of a script are kept, and of its stack.
const maxErrorText = 4 << 10

// Send gets what the script does: a call, output, its end.
func (r *run) Send(values []quickjs.Value) {
	text := func(i, most int) string {
		if i >= len(values) {
			return ""
		}
		text, size := values[i].Text(most)
		if size > most {
			return text + "…"
		}
		return text
	}
	limits := r.provider.options.Limits
	switch text(0, 16) {
	case "call":
		if len(r.calls) == limits.Calls || r.end != nil || len(values) < 3 {
			return // the prelude refuses such calls
		}
		arguments, size := values[2].Text(limits.CallResult)
		number := len(r.calls) + 1
		c := &toolCall{
			run: r, outer: &twotools.Responder{Call: r.call, Name: fmt.Sprint("c", number)}, number: number, text: text(1, 1<<10), arguments: arguments,
		}
		c.function = r.names.byText[c.text]
		if size > limits.CallResult {
			c.refused = fmt.Sprintf("the arguments have %d bytes, more than %d", size, limits.CallResult)
		} else if jsonscan.KindOf([]byte(arguments)) != jsonscan.Object || jsonscan.Valid([]byte(arguments)) != nil {
			c.refused = "the arguments must be one object"
		}
		r.calls = append(r.calls, c)
	case "log":
		r.console.add(text(1, r.console.most))
	case "end":
		r.end = &ending{value: text(1, limits.Result), notes: text(2, 16<<10), handles: text(3, 4<<10)}
	case "fail":
		r.end = &ending{failure: text(1, 100), message: text(2, maxErrorText), stack: text(3, maxErrorText)}
	}
}
