package approval

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A rememberedApproval is an approval that is also valid for later calls, until its record ends.
type rememberedApproval struct {
	Request string `json:"request"` // id of the request that was approved
	Given   int64  `json:"given"`   // in Unix milliseconds
	By      string `json:"by,omitempty"`
}

// rememberedKey returns the key of the record of an approval of equal requests.
func (g *guard) rememberedKey(r *Request) string {
	subject := r.Subject()
	return "approval/remembered/" + digestOf("dovetail remembered approval 3", g.opts.Name, string(subject[:])).String()
}

// recall returns the approval of calls that are equal to r, nil for none. Any error means that the approver is asked.
func (g *guard) recall(ctx context.Context, r *Request) *rememberedApproval {
	if g.opts.Remember <= 0 {
		return nil
	}
	stored, err := g.remembered.Load(ctx, g.rememberedKey(r))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		g.opts.Logger.Warn("a remembered approval could not be read: the approver is asked", "request", r.ID, "error", err)
		return nil
	case time.Now().UnixMilli() >= stored.Value.Given+g.opts.Remember.Milliseconds(): // Options.Remember may have become shorter since
		return nil
	}
	return &stored.Value
}

// remember keeps the approval of r for some time. If that fails, the approver is asked again.
func (g *guard) remember(ctx context.Context, r *Request, approved time.Time, a Answer) {
	until := approved.Add(a.Remember)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	_, err := g.remembered.Put(ctx, g.rememberedKey(r), func(rec *state.Record[rememberedApproval]) error {
		if rec.Stored() && !rec.Until.Before(until) {
			return state.ErrUnchanged
		}
		rec.Value, rec.Until = rememberedApproval{r.ID, approved.UnixMilli(), peertext.Cut(a.By, maxReason)}, until
		return nil
	})
	if err != nil {
		g.opts.Logger.Warn("an approval could not be remembered", "request", r.ID, "error", err)
	}
}

// forget ends the remembered approval of calls that are equal to r, since a person has rejected r.
func (g *guard) forget(ctx context.Context, r *Request) {
	if g.opts.Remember <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := g.remembered.Delete(ctx, g.rememberedKey(r), nil); err != nil {
		g.opts.Logger.Error("a remembered approval could not be revoked, and is valid until its time ends", "request", r.ID, "error", err)
	}
}
