package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Guard decides whether a call may be made. It sees the call before its arguments
// have been validated.
type Guard struct {
	// Name is told to callers that the guard refuses, and to the operator.
	Name string
	// Allow returns nil if the call may be made. Any error refuses it, a panic too;
	// callers are not told which, unless it is a *jsonrpc.Error. They are told the
	// guard's name, with the code -32603 and data {"type":"FORBIDDEN","guard":"…"},
	// which client.IsForbidden knows. A question to the caller (see [Elicit]) is asked.
	Allow func(ctx context.Context, r *Request) error
	// Hides keeps from a caller's lists what the guard would refuse the caller, and
	// so Allow is asked for each entry of a list as well; the [Request.Call] is then
	// that for the list. A call for what is hidden is answered as if it did not
	// exist, whatever the error.
	Hides bool
}

// A denial is a guard's error, as the caller is told it.
type denial struct {
	error
	hides bool
}

func (d *denial) Unwrap() error { return d.error }

// check asks the guard.
func (g *Guard) check(ctx context.Context, r *Request) error {
	err := g.ask(ctx, r)
	if _, asks := mcp.AsInputRequired(err); err == nil || asks {
		return err
	}
	r.server.options.Logger.Info("a guard refused a call", "guard", g.Name, "kind", r.Kind(), "name", r.Name(), "reason", err)
	switch {
	case g.Hides:
		return &denial{unknown(r.entry.of, r.call), true}
	case isProtocolError(err):
		return &denial{err, false}
	default:
		return &denial{g.forbidden(r), false}
	}
}

// shows says whether the guard lets the caller of a list see an entry of it. What it
// would ask about exists.
func (g *Guard) shows(ctx context.Context, r *Request) bool {
	err := g.ask(ctx, r)
	_, asks := mcp.AsInputRequired(err)
	return err == nil || asks
}

// ask fails closed.
func (g *Guard) ask(ctx context.Context, r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.server.options.Logger.Error("panic in a guard", "guard", g.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("the guard panicked")
		}
	}()
	if g.Allow == nil {
		return errors.New("the guard has no function")
	}
	return g.Allow(ctx, r)
}

// forbidden is what a refused caller is told.
func (g *Guard) forbidden(r *Request) error {
	data, err := encode(struct {
		Type  string `json:"type"`
		Guard string `json:"guard"`
	}{"FORBIDDEN", g.Name})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{
		Code:    jsonrpc.InternalError,
		Message: fmt.Sprintf("Guard '%s' denied the %s call for '%.256s'", g.Name, r.Kind(), r.Name()),
		Data:    data,
	}
}

// unknown is what a caller is told of what does not exist.
func unknown(of entryKey, call *mcp.Call) error {
	switch of.kind {
	case resourceKind, templateKind:
		uri, err := stringMember(call, "uri")
		if err != nil {
			return err
		}
		return mcp.ResourceNotFound(uri)
	case completionKind:
		argument, err := stringMember(call, "argument", "name")
		if err != nil {
			return err
		}
		return noArgument(argument, of.label())
	default:
		return invalidParams("unknown %v: %.256q", of.kind, of.name)
	}
}

// hides says whether any guard keeps something from some lists.
func (a *Around) hides() bool {
	return slices.ContainsFunc(a.Guards, func(g Guard) bool { return g.Hides })
}

func (a *attended) hides() bool { return a.around.hides() }

// isVisible says whether the caller of a list may see the entry.
func (a *attended) isVisible(ctx context.Context, s *Server, list *mcp.Call) bool {
	r := &Request{call: list, server: s, entry: a}
	for i := range a.around.Guards {
		if g := &a.around.Guards[i]; g.Hides && !g.shows(ctx, r) {
			return false
		}
	}
	return true
}
