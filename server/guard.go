package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Guard decides whether a call may be made. It sees the call before its arguments
// have been validated.
type Guard struct {
	// Name is told to callers that the guard refuses, and to the operator.
	Name string
	// Allow returns nil if the call may be made. Any error refuses it, a panic too;
	// callers are not told which, unless it is a *jsonrpc.Error. A question to the
	// caller (see [Elicit]) is asked.
	Allow func(ctx context.Context, r *Request) error
	// Hides keeps from a caller's lists what the guard would refuse the caller. A
	// call for it is answered as if it did not exist.
	Hides bool
}

// check asks the guard.
func (g *Guard) check(ctx context.Context, r *Request) error {
	err := g.ask(ctx, r)
	if err == nil || isProtocolError(err) {
		return err
	}
	of := r.entry.of
	r.server.options.Logger.Info("a guard refused a call", "guard", g.Name, "kind", of.kind.String(), "name", of.name, "reason", err)
	if g.Hides {
		return of.unknown()
	}
	return forbidden(g.Name, of)
}

// ask fails closed.
func (g *Guard) ask(ctx context.Context, r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if g.Allow == nil {
		return errors.New("the guard has no function")
	}
	return g.Allow(ctx, r)
}

// forbidden is what a refused caller is told.
func forbidden(guard string, of entryKey) error {
	data, err := encode(struct {
		Type  string `json:"type"`
		Guard string `json:"guard"`
	}{"FORBIDDEN", guard})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{
		Code:    jsonrpc.InternalError,
		Message: fmt.Sprintf("Guard '%s' denied the %v call for '%s'", guard, of.kind, of.name),
		Data:    data,
	}
}

// unknown is what a caller is told of an entry that does not exist.
func (k entryKey) unknown() error {
	switch k.kind {
	case resourceKind, templateKind:
		return mcp.ResourceNotFound(k.name)
	default:
		return invalidParams("unknown %v: %.256q", k.kind, k.name)
	}
}

// hides says whether any guard keeps the entry from some lists.
func (a *attended) hides() bool {
	for i := range a.around.Guards {
		if a.around.Guards[i].Hides {
			return true
		}
	}
	return false
}

// isVisible says whether the caller of a list may see the entry.
func (a *attended) isVisible(ctx context.Context, s *Server, list *mcp.Call) bool {
	r := &Request{call: list, server: s, entry: a}
	for i := range a.around.Guards {
		if g := &a.around.Guards[i]; g.Hides && g.ask(ctx, r) != nil {
			return false
		}
	}
	return true
}
