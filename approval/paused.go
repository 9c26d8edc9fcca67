package approval

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/transport/store"
)

// storeTimeout bounds what is done in the store after a run has ended.
const storeTimeout = 5 * time.Second

// maxChecked is the maximum number of paused grants that are looked up for a call that finds no room.
const maxChecked = 32

// A pausedGrant is the state of a grant between two runs of its call, until its record ends. The replica
// that deletes the record has the grant, so one replica continues the call. While the call runs, nothing is
// stored: a call that was running in a process that was killed cannot be continued. A call that runs as a task
// is also stored before it is executed, while it waits for the approver.
type pausedGrant struct {
	ID       string `json:"id"`      // of the request
	Digest   Digest `json:"digest"`  // of the request
	Created  int64  `json:"created"` // these times are in Unix milliseconds
	Deadline int64  `json:"deadline"`
	Run      int    `json:"run"`
	Approved bool   `json:"approved,omitempty"`
}

// pausedKey returns the key of the record of a paused grant.
func (g *guard) pausedKey(id callID) string {
	return "approval/grant/" + digestOf("dovetail paused grant 2", g.opts.Name, id.call, id.server, id.tool).String()
}

// storeGrant puts a grant into the store until the next run.
func (g *guard) storeGrant(ctx context.Context, grant *grant, until time.Time) (resumeToken, error) {
	r := grant.request
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	stored, err := g.paused.Create(ctx, g.pausedKey(grant.id), pausedGrant{
		r.ID, grant.digest, r.Created.UnixMilli(), r.Deadline.UnixMilli(), grant.runNumber, grant.approved,
	}, until)
	if err != nil {
		return resumeToken{}, StoreError(err)
	}
	g.grants.setStored(grant, stored)
	return resumeToken{r.ID, grant.runNumber, until.UnixMilli()}, nil
}

// beginGrant adds a grant for its first run. If there is no room, paused grants that other replicas have continued make room.
func (g *guard) beginGrant(ctx context.Context, opened *grant) error {
	err := g.grants.begin(opened)
	if !errors.Is(err, TooMany) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	for n, grant := range g.grants.paused(opened.holder, time.Now()) {
		if n == maxChecked {
			break
		}
		_, err := g.paused.Load(ctx, g.pausedKey(grant.id))
		if errors.Is(err, store.ErrNotFound) {
			g.grants.endPaused(grant)
		} else if err != nil {
			break
		}
	}
	return g.grants.begin(opened)
}

// takeGrant takes a grant from the store for the next run of its call. request is the request of the new run.
func (g *guard) takeGrant(ctx context.Context, request *Request, id callID, key string, token resumeToken) (*grant, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	stored, err := g.paused.Load(ctx, g.pausedKey(id))
	now := time.Now() // reading may have taken long
	switch {
	case errors.Is(err, store.ErrNotFound) && now.UnixMilli() >= token.Until:
		return nil, Expired
	case errors.Is(err, store.ErrNotFound):
		return nil, Spent
	case err != nil:
		return nil, StoreError(err)
	}
	paused := &stored.Value
	if paused.ID != token.Request || paused.Run != token.Run {
		return nil, Spent
	}
	switch err := g.paused.Delete(ctx, g.pausedKey(id), stored); {
	case errors.Is(err, store.ErrConflict):
		return nil, Spent
	case err != nil:
		return nil, StoreError(err)
	}
	request.ID, request.Created, request.Deadline = paused.ID, atMilli(now, paused.Created), atMilli(now, paused.Deadline)
	if request.Digest() != paused.Digest {
		g.opts.Logger.Info("the call has changed since it was paused", "request", paused.ID)
		return nil, Changed
	}
	taken := &grant{request: request, digest: paused.Digest, id: id, key: key, approved: paused.Approved, runNumber: paused.Run}
	if err := g.grants.begin(taken); err != nil {
		return nil, err
	}
	event := eventAsked
	if taken.approved {
		event = eventResumed
	}
	if err := g.appendEntry(now, taken, event, Answer{}); err != nil {
		g.grants.end(taken)
		return nil, err
	}
	return taken, nil
}

// atMilli returns a time with a reading of the monotonic clock.
func atMilli(now time.Time, milli int64) time.Time { return now.Add(time.UnixMilli(milli).Sub(now)) }

// callDone ends a grant that waits for the next run of a call that has ended.
func (g *guard) callDone(ctx context.Context, grant *grant) {
	g.grants.endPaused(grant)
	stored := g.grants.stored(grant)
	if stored == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := g.paused.Delete(ctx, g.pausedKey(grant.id), stored)
	if err != nil && !errors.Is(err, store.ErrConflict) { // with ErrConflict, it has been continued
		g.opts.Logger.Warn("a paused call stays in the store until it expires", "request", grant.request.ID, "error", err)
	}
}

// persist stores the request of a call that runs as a task. If its replica ends, another one begins the call
// again and finds the request, or finds that the call has been executed; see claim.
func (r *run) persist(ctx context.Context) error {
	g, request := r.guard, r.grant.request
	if !g.shared || r.call.TaskID() == "" { // another replica that continues the task asks again if it cannot find the request
		return nil
	}
	r.call.Store(r.grant.key, resumeToken{request.ID, r.grant.runNumber, request.Deadline.UnixMilli()}.json())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := g.storeGrant(ctx, r.grant, request.Deadline)
	return err
}

// claim takes the request that persist has stored, so that this run executes the call and no other one.
func (r *run) claim(ctx context.Context) error {
	g := r.guard
	stored := g.grants.stored(r.grant)
	if stored == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	switch err := g.paused.Delete(ctx, g.pausedKey(r.grant.id), stored); {
	case errors.Is(err, store.ErrConflict):
		return Spent
	case err != nil:
		return StoreError(err)
	}
	g.grants.setStored(r.grant, nil)
	return nil
}

// leave ends a run that was interrupted before the function has begun, and keeps the request for the run that begins the
// function. It returns false if the request ends with this run.
func (r *run) leave(ctx context.Context) bool {
	g := r.guard
	if !task.Postponed(ctx) || g.grants.stored(r.grant) == nil && !r.storeAgain(ctx) {
		return false
	}
	g.grants.setStored(r.grant, nil) // callDone must not delete it
	answer := Answer{}
	if r.executing {
		answer.Reason = "interrupted; a later run continues the call"
	}
	_ = g.appendEntry(time.Now(), r.grant, eventPaused, answer) // appendEntry logs the error, and this run ends
	r.end()
	return true
}

// storeAgain stores the grant that this run has taken or claimed, for the token that the call has. It returns false if
// there is none, or if the store fails.
func (r *run) storeAgain(ctx context.Context) bool {
	stored, ok := r.call.Load(r.grant.key)
	var token resumeToken
	if !ok || json.Unmarshal(stored, &token) != nil {
		return false
	}
	r.grant.runNumber = token.Run
	if _, err := r.guard.storeGrant(ctx, r.grant, r.pausedUntil()); err != nil {
		r.guard.opts.Logger.Warn("an approved call that has not begun cannot be kept", "request", r.grant.request.ID, "error", err)
		return false
	}
	return true
}

// pausedUntil returns until when the next run of the call may begin.
func (r *run) pausedUntil() time.Time {
	now := time.Now()
	until := r.grant.request.Deadline
	if r.executing {
		until = now.Add(r.guard.opts.Expiry)
	}
	if last := now.Add(maxPause); until.After(last) {
		return last
	}
	return until
}

// pause keeps the grant for the next run of its call.
func (r *run) pause(ctx context.Context, until time.Time) error {
	g := r.guard
	if g.grants.stored(r.grant) == nil { // otherwise persist has stored it
		token, err := g.storeGrant(ctx, r.grant, until)
		if err != nil {
			return r.refuse(codeOf(err, Failed), err)
		}
		r.call.Store(r.grant.key, token.json())
	}
	g.grants.pause(r.grant, until)
	if err := g.appendEntry(time.Now(), r.grant, eventPaused, Answer{}); err != nil {
		r.end()
		return g.refuse(&r.grant.request.Target, Failed, err)
	}
	return nil
}
