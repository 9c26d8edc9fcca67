package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// An Entry is something that a server offers, with everything that others need to know
// about it: a tool, prompt, resource or resource template. [NewTool] and the like make
// entries; so do literals. Entries are shared: change a copy, as [Catalog.Map] does.
type Entry struct {
	// Target says what the entry is. Calls that are resolved to the entry have it.
	mcp.Target
	// Handle handles a call that was resolved to this entry. Its errors are raw: the
	// server that received the call makes results and protocol errors of them.
	Handle mcp.Handler
	// Complete completes an argument of the prompt, or a variable of the template; nil
	// if none is completed.
	Complete mcp.Handler
	// Match reports whether a URI is one of a resource template.
	Match func(uri string) bool
	// Visible reports whether a caller sees the entry in lists; nil if all do.
	Visible func(ctx context.Context, caller *mcp.Caller) bool
	// Subscribe begins to report changes of the resource with the call's URI, until stop
	// is called. It is nil if changes are reported without. ctx is that of the request
	// to subscribe, not of the subscription.
	Subscribe func(ctx context.Context, call *mcp.Call) (stop func(), err error)

	draft *draft // nil once the entry is in a catalog
}

// A draft is what stands between the guards and the function of an entry, as long as more
// can be added.
type draft struct {
	guards     []mcp.Guard
	middleware []mcp.Middleware
	// bind makes Handle, within the middleware that follows the validation of arguments.
	// It is nil if Handle is there.
	bind    func(s *Server, within mcp.Middleware) mcp.Handler
	timeout time.Duration

	dependencies []reflect.Type      // that the function takes
	argument     string              // of a completion: what is completed
	values       map[string][]string // of arguments that may have some values only
}

// Wrap returns a copy of the entry within guards and middleware, the first outermost.
// Those of an entry that is in no catalog yet surround the validation of its arguments, as
// Guards and CallMiddleware of a [Tool] do; those of any other entry surround all of it.
func (e *Entry) Wrap(guards []mcp.Guard, middleware []mcp.Middleware) *Entry {
	if len(guards)+len(middleware) == 0 {
		return e
	}
	wrapped := *e
	wrapped.draft = &draft{}
	if e.draft != nil {
		*wrapped.draft = *e.draft
	}
	wrapped.draft.guards = slices.Concat(guards, wrapped.draft.guards)
	wrapped.draft.middleware = slices.Concat(middleware, wrapped.draft.middleware)
	return &wrapped
}

// require returns a copy of the entry that needs more scopes, and has more metadata. What
// the entry itself says wins.
func (e *Entry) require(scopes []string, metadata map[string]any) *Entry {
	if len(scopes)+len(metadata) == 0 {
		return e
	}
	with := *e
	with.Scopes = slices.Clone(scopes)
	for _, scope := range e.Scopes {
		if !slices.Contains(with.Scopes, scope) {
			with.Scopes = append(with.Scopes, scope)
		}
	}
	with.Metadata = maps.Clone(metadata)
	if with.Metadata == nil {
		with.Metadata = make(map[string]any, len(e.Metadata))
	}
	maps.Copy(with.Metadata, e.Metadata)
	return &with
}

// finish composes what a draft holds: once, so that middleware is called once. s is the
// server of the functions, nil if there is none.
func (e *Entry) finish(s *Server) *Entry {
	d := e.draft
	if d == nil {
		return e
	}
	done := *e
	done.draft = nil
	within := compose(d.guards, d.middleware)
	if d.bind != nil {
		done.Handle = d.bind(s, within)
	} else {
		done.Handle = wrap(within, done.Handle)
	}
	if len(d.guards) > 0 && (e.Kind == mcp.KindResource || e.Kind == mcp.KindResourceTemplate) {
		done.Handle = privately(done.Handle)
	}
	done.Handle = limited(d.timeout, &done.Target, checked(d.guards, &done.Target, done.Handle))
	done.Complete = checked(d.guards, &done.Target, wrap(within, e.Complete))
	done.Visible = visible(d.guards, &done.Target, e.Visible)
	done.Subscribe = subscribed(d.guards, &done.Target, e.Subscribe)
	return &done
}

// check refuses what could not be called, or not be listed.
func (e *Entry) check() error {
	switch {
	case e == nil:
		return errors.New("there is an entry that is nil")
	case e.Kind < mcp.KindTool || e.Kind > mcp.KindResourceTemplate:
		return fmt.Errorf("the entry %.80q has no kind", e.Name)
	case e.Definition == nil && e.isListed():
		return fmt.Errorf("the %v %.80q has no definition", e.Kind, e.Name)
	case e.Handle == nil && e.isListed() && (e.draft == nil || e.draft.bind == nil):
		return fmt.Errorf("the %v %.80q has no function", e.Kind, e.Name)
	}
	if e.Kind == mcp.KindTool || e.Kind == mcp.KindPrompt {
		if err := checkName(e.Kind, e.Name); err != nil {
			return err
		}
	} else if e.Name == "" {
		return fmt.Errorf("a %v has no URI", e.Kind)
	}
	if e.draft != nil {
		if err := checkGuards(e.draft.guards); err != nil {
			return fmt.Errorf("%v %q: %w", e.Kind, e.Name, err)
		}
	}
	return nil
}

// isListed reports whether the entry is one of a list, and not a completion of one.
func (e *Entry) isListed() bool { return e.draft == nil || e.draft.argument == "" }

// maxName is the longest name of a tool or prompt in bytes. MCP 2025-11-25, server/tools.
const maxName = 128

// checkName refuses names that clients may not be able to use.
func checkName(kind mcp.Kind, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%v %.40q: a name has 1 to %d characters, not %d", kind, name, maxName, len(name))
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return fmt.Errorf("%v %q: a name consists of A–Z a–z 0–9 _ - and dot, not of %q", kind, name, c)
		}
	}
	return nil
}

// checkGuards refuses guards that would decide nothing.
func checkGuards(guards []mcp.Guard) error {
	for _, g := range guards {
		if g.Visible == nil && g.Check == nil && g.Run == nil {
			return fmt.Errorf("the guard %q has no function", g.Name)
		}
	}
	return nil
}
