package main

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// The forms in which clients of MCP get the tools. With -http, each one that is served has a path of its own below /mcp/.
const (
	toolsForm   = "tools"   // all tools
	searchForm  = "search"  // of -search
	scriptsForm = "scripts" // of -scripts
)

// forms returns the forms that are served. The first one is also at /mcp.
func (o *serveOptions) forms() (names []string) {
	if o.search {
		names = append(names, searchForm)
	}
	if o.scripts {
		names = append(names, scriptsForm)
	}
	switch {
	case len(names) == 1 && o.http == "":
		return names
	case len(names) == 1:
		return append(names, toolsForm)
	}
	return append([]string{toolsForm}, names...)
}

// A form is a server for the clients of MCP that have chosen a form. All forms have the same servers behind, guards and approvals, but
// own sessions and tasks.
type form struct {
	name     string
	server   *server.Server
	endpoint *streamable.Endpoint // nil without -http
}

type forms []*form

// openForms makes the servers of the forms. The guards and observers of calls are in the server of all tools, which the others have
// behind them.
func (h *hub) openForms() error {
	for _, name := range h.opts.forms() {
		s, err := h.openForm(name)
		if err != nil {
			return err
		}
		h.forms = append(h.forms, &form{name: name, server: s})
	}
	return nil
}

func (h *hub) openForm(name string) (*server.Server, error) {
	offered := h.server.Provider()
	var err error
	switch name {
	case searchForm:
		offered, err = search.New(offered, &search.Options{Logger: h.logger})
	case scriptsForm:
		offered, err = h.openScripts(offered)
	default:
		return h.server, nil
	}
	if err != nil {
		return nil, err
	}
	part, err := h.storeOf(name)
	if err != nil {
		return nil, err
	}
	s := server.New(mcp.Implementation{Name: "dovetail", Version: version()}, &server.Options{
		Logger: h.logger, OnSession: h.telemetry.server.OnSession, Store: part, MaxTasks: h.opts.maxTasks,
	})
	return s, s.Mount(offered, nil)
}

// storeOf returns the part of the store in which the server of a form with two tools keeps sessions and tasks, or nil without a store.
// The server of all tools has the store itself. None may continue what another one has begun.
func (h *hub) storeOf(form string) (store.Store, error) {
	if h.store == nil {
		return nil, nil
	}
	key, err := hkdf.Key(sha256.New, []byte(h.tokens.Forms), nil, "form "+form, sha256.Size)
	if err != nil {
		return nil, err
	}
	return store.Sealed(h.store, key)
}

// start starts the servers behind, and the workers of tasks.
func (f forms) start(ctx context.Context) error {
	for _, form := range f {
		if err := form.server.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shutdown ends the servers, except that of all tools, in which calls of the others run.
func (f forms) shutdown(ctx context.Context) error {
	var errs []error
	for _, form := range f {
		if form.name != toolsForm {
			errs = append(errs, form.server.Shutdown(ctx))
		}
	}
	return errors.Join(errs...)
}

// close ends the sessions of clients.
func (f forms) close(context.Context) error {
	var errs []error
	for _, form := range f {
		errs = append(errs, form.endpoint.Close())
	}
	return errors.Join(errs...)
}

// scopes returns the scopes that a call needs in the form that has what it names.
func (f forms) scopes(method, name string) []string {
	for _, form := range f {
		if scopes := form.server.Scopes(method, name); len(scopes) > 0 {
			return scopes
		}
	}
	return nil
}

// tasks returns the tasks of all forms.
func (f forms) tasks(ctx context.Context, open bool) (all []server.TaskState, err error) {
	for _, form := range f {
		tasks, err := form.server.Tasks(ctx, open)
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// changeTask changes a task in the form that knows it.
func (f forms) changeTask(change func(s *server.Server) error) error {
	for _, form := range f {
		if err := change(form.server); !errors.Is(err, server.ErrUnknownTask) {
			return err
		}
	}
	return server.ErrUnknownTask
}

// countTasks returns how many tasks have not ended, by state, and how long one waits for a worker.
func (f forms) countTasks(ctx context.Context) (counts map[string]int, oldest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	open, err := f.tasks(ctx, true)
	if err != nil {
		return nil, 0, err
	}
	counts = make(map[string]int)
	for _, task := range open {
		switch {
		case task.Waits:
			counts["waiting"]++
			oldest = max(oldest, time.Since(task.Updated))
		case task.Status == mcp.TaskInputRequired:
			counts["asking"]++
		default:
			counts["running"]++
		}
	}
	return counts, oldest, nil
}
