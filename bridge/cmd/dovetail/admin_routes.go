package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// storeTimeout bounds what an operator asks of the store.
const storeTimeout = 2 * time.Second

// routeAdmin adds the routes for operators, who have a token of their own.
func (h *hub) routeAdmin(w *website, mux *http.ServeMux) error {
	access, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{
		Tokens: map[string]string{h.tokens.Admin: "admin"}, Hosts: h.opts.hosts, Logger: h.logger,
	})
	if err != nil {
		return err
	}
	a := &admin{h}
	routes := http.NewServeMux()
	for route, serve := range map[string]func(r *http.Request) (any, error){
		"GET /admin/status":                a.status,
		"GET /admin/tasks":                 a.listTasks,
		"POST /admin/tasks/{id}/cancel":    a.change("cancelled a task", a.cancelTask),
		"POST /admin/tasks/{id}/retry":     a.change("gave a task to the workers again", a.retryTask),
		"GET /admin/sessions":              a.listSessions,
		"POST /admin/sessions/{id}/cancel": a.change("ended a session", a.endSession),
	} {
		routes.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) { h.answerAdmin(w, r, serve) })
	}
	mux.Handle("/admin/", access.Handler(routes))
	fmt.Fprintf(h.env.stderr, "admin    http://%s/admin/ with the token %s\n", w.listener.Addr(), h.tokens.Admin)
	return nil
}

// admin serves the routes for operators.
type admin struct{ hub *hub }

// An adminRefusal is an error with the status of its response.
type adminRefusal struct {
	status int
	text   string
}

func (r *adminRefusal) Error() string { return r.text }

// answerAdmin answers a request of an operator with the JSON of a value, or of the text of an error.
func (h *hub) answerAdmin(w http.ResponseWriter, r *http.Request, serve func(r *http.Request) (any, error)) {
	status := http.StatusOK
	answer, err := serve(r)
	if err != nil {
		status = http.StatusServiceUnavailable // of the store
		if refused, ok := errors.AsType[*adminRefusal](err); ok {
			status = refused.status
		}
		answer = map[string]string{"error": err.Error()}
	}
	if s, ok := answer.(*programStatus); ok && !s.isFine() {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		h.logger.Debug("an operator was not answered", "error", err)
	}
}

// change returns a route that changes what has the id in the path, and logs it.
func (a *admin) change(what string, operation func(ctx context.Context, id string) error) func(r *http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		id := r.PathValue("id")
		if err := operation(r.Context(), id); err != nil {
			return nil, err
		}
		a.hub.events.Info("an operator "+what, "id", id)
		return map[string]string{"id": id}, nil
	}
}

func (a *admin) listTasks(r *http.Request) (any, error) {
	if a.hub.store != nil { // a list without the tasks of other replicas would look as if there were none
		if checked := a.hub.checkStore(r.Context()); checked.Status == "unreachable" {
			return nil, fmt.Errorf("the store cannot be read: %s", checked.Error)
		}
	}
	tasks, err := a.hub.forms.tasks(r.Context(), r.FormValue("ended") == "")
	if tasks == nil {
		tasks = []server.TaskState{}
	}
	return tasks, err
}

func (a *admin) cancelTask(ctx context.Context, id string) error {
	return refusedTask(a.hub.forms.changeTask(func(s *server.Server) error { return s.CancelTask(ctx, id) }))
}

func (a *admin) retryTask(ctx context.Context, id string) error {
	return refusedTask(a.hub.forms.changeTask(func(s *server.Server) error { return s.RetryTask(ctx, id) }))
}

// refusedTask adds a status to an error.
func refusedTask(err error) error {
	switch {
	case errors.Is(err, server.ErrUnknownTask):
		return &adminRefusal{http.StatusNotFound, "there is no task with this id"}
	case errors.Is(err, server.ErrTaskNotWaiting):
		return &adminRefusal{http.StatusConflict, "the task does not wait for a worker: it runs, asks its client, or has ended"}
	}
	return err
}

func (a *admin) listSessions(*http.Request) (any, error) {
	sessions := []streamable.SessionState{}
	for _, form := range a.hub.forms {
		sessions = append(sessions, form.endpoint.Sessions()...)
	}
	return sessions, nil
}

func (a *admin) endSession(ctx context.Context, id string) error {
	for _, form := range a.hub.forms {
		if found, err := form.endpoint.EndSession(ctx, id); found || err != nil {
			return err
		}
	}
	return &adminRefusal{http.StatusNotFound, "there is no session with this id"}
}

// A programStatus is what operators see at /admin/status.
type programStatus struct {
	Version  string         `json:"version"`
	Ready    bool           `json:"ready"`    // as /readyz says
	Draining bool           `json:"draining"` // the program ends soon
	Wedged   bool           `json:"wedged"`   // as /livez says
	Store    *storeStatus   `json:"store,omitempty"`
	Servers  []serverStatus `json:"servers"`
}

// isFine reports whether the replica can do all that it is for.
func (s *programStatus) isFine() bool {
	return !s.Wedged && (s.Store == nil || s.Store.Status == "reachable" && s.Store.Keys == "agree")
}

// A storeStatus is whether the store can be used, and whether all replicas have the same keys.
type storeStatus struct {
	Status string `json:"status"` // reachable, full or unreachable
	Keys   string `json:"keys"`   // agree, differ, lost or unknown
	Error  string `json:"error,omitempty"`
}

// A serverStatus is the state of a server behind.
type serverStatus struct {
	Alias    string    `json:"alias"`
	Status   string    `json:"status"`
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts"`
	Tools    int       `json:"tools"`
	Error    string    `json:"error,omitempty"`
}

func (a *admin) status(r *http.Request) (any, error) {
	h := a.hub
	s := &programStatus{
		Version: version(), Ready: h.isReady() == nil, Draining: h.draining.Load(), Wedged: h.live.isWedged(r.Context(), liveTimeout), Servers: h.serverStatuses(),
	}
	if h.store != nil {
		checked := h.checkStore(r.Context())
		s.Store = &checked
	}
	return s, nil
}

// serverStatuses returns the states of the servers behind.
func (h *hub) serverStatuses() []serverStatus {
	list := []serverStatus{}
	for _, state := range h.bridge.States() {
		listed := serverStatus{Alias: state.Alias, Status: state.Status, Since: state.Since, Restarts: state.Restarts, Tools: state.Tools}
		if state.Err != nil {
			listed.Error = state.Err.Error()
		}
		list = append(list, listed)
	}
	return list
}

// checkStore returns whether the store can be used now. The keys agree if this replica can open the tokens that the first replica has
// sealed, and has the same ones.
func (h *hub) checkStore(ctx context.Context) storeStatus {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := store.Check(ctx, h.store)
	switch {
	case errors.Is(err, store.ErrFull):
		return storeStatus{"full", "unknown", err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return storeStatus{"unreachable", "unknown", fmt.Sprintf("no answer within %v", storeTimeout)}
	case err != nil:
		return storeStatus{"unreachable", "unknown", err.Error()}
	}
	record, err := state.NewRecords[tokens](h.store, h.key).Load(ctx, tokensName)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return storeStatus{"reachable", "lost", "the store has lost the tokens that all replicas accept: replicas that start now make others"}
	case errors.Is(err, state.ErrUnreadable):
		return storeStatus{"reachable", "differ", "another replica has other keys: " + err.Error()}
	case err != nil:
		return storeStatus{"unreachable", "unknown", err.Error()}
	case record.Value != h.tokens:
		return storeStatus{"reachable", "differ", "other replicas accept other tokens, since the store was emptied: start this replica again"}
	}
	return storeStatus{"reachable", "agree", ""}
}
