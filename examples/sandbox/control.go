package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxBody        = 1 << 20 // bytes
	maxCredentials = 64      // sessions
)

// control are the routes by which a sandbox is set up, beside what agents use.
type control struct {
	sandbox  *sandbox
	sidecars sidecars

	mu          sync.Mutex
	credentials map[string]string // keys of users, by sessions; nothing prints them
	registered  bool              // the sandbox's own tools are offered
}

// A reply is the body of an answer.
type reply struct {
	Status  string   `json:"status,omitempty"`
	Error   string   `json:"error,omitempty"`
	Message string   `json:"message,omitempty"`
	URL     string   `json:"url,omitempty"`
	Tools   []string `json:"tools,omitempty"`
}

func success() (int, reply)          { return http.StatusOK, reply{Status: "success"} }
func wrong(text string) (int, reply) { return http.StatusBadRequest, reply{Error: text} }

func failed(status int, err error) (int, reply) {
	return status, reply{Status: "error", Message: err.Error()}
}

func answer(w http.ResponseWriter, status int, body reply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		return // who does not listen need not
	}
}

func health(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, reply{Status: "ok"}) }

// handler serves the routes, below /mcp too, where older programs look for them. They are
// for programs: what a page of a browser sends is refused, wherever the page is from.
func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	for route, serve := range map[string]func(r *http.Request, body []byte) (int, reply){
		"POST /credential": c.setCredential, "POST /tool-server-url": c.setToolServer,
		"POST /custom-mcp": c.addCustom, "PUT /custom-mcp": c.addCustom, "DELETE /custom-mcp/{server}": c.removeCustom,
		"POST /sidecars/{name}": c.startSidecar, "POST /register-codex": c.startSidecar,
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, base := range []string{"", "/mcp"} {
			mux.HandleFunc(method+" "+base+path, func(w http.ResponseWriter, r *http.Request) {
				if len(r.Header["Origin"]) > 0 {
					answer(w, http.StatusForbidden, reply{Error: "expected no request of a browser's"})
					return
				}
				body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
				if err != nil {
					answer(w, http.StatusRequestEntityTooLarge, reply{Error: fmt.Sprintf("expected a body of at most %d bytes", maxBody)})
					return
				}
				status, said := serve(r, body)
				answer(w, status, said)
			})
		}
	}
	return mux
}

// decode reads a body that is an object with something in it.
func decode(body []byte, into any) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(body, &members) == nil && len(members) > 0 && json.Unmarshal(body, into) == nil
}

func (c *control) setCredential(_ *http.Request, body []byte) (int, reply) {
	var in struct {
		UserAPIKey string `json:"user_api_key"`
		SessionID  string `json:"session_id"`
	}
	switch {
	case !decode(body, &in):
		return wrong("Invalid request")
	case in.UserAPIKey == "" || in.SessionID == "":
		return wrong("user_api_key or session_id is not set in the credential file")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.credentials[in.SessionID]; !known && len(c.credentials) >= maxCredentials {
		return http.StatusConflict, reply{Error: "there are credentials of too many sessions"}
	}
	if c.credentials == nil {
		c.credentials = make(map[string]string)
	}
	c.credentials[in.SessionID] = in.UserAPIKey
	return success()
}

// setToolServer has commands know the tool server, as TOOL_SERVER_URL, and registers the
// sandbox's tools.
func (c *control) setToolServer(r *http.Request, body []byte) (int, reply) {
	var in struct {
		URL string `json:"tool_server_url"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !decode(body, &in):
		return wrong("Invalid request")
	case len(c.credentials) == 0:
		return wrong("Credential must be set before setting tool server url")
	}
	base, err := c.toolServer(in.URL)
	if err != nil {
		return wrong(err.Error())
	}
	if err := probe(r.Context(), base); err != nil {
		return http.StatusInternalServerError, reply{Status: "error", Message: "Can't connect to tool server: " + err.Error()}
	}
	c.sandbox.commands.set("TOOL_SERVER_URL", base)
	if err := c.sandbox.register(); err != nil {
		return failed(http.StatusInternalServerError, err)
	}
	return success()
}

// toolServer checks a URL: nobody is to be sent anywhere but to this machine, and the hosts
// that were listed.
func (c *control) toolServer(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("tool_server_url: expected a URL that begins with http:// or https://, without a user, a query and a fragment")
	}
	host := u.Hostname()
	if host != "localhost" && !net.ParseIP(host).IsLoopback() && !slices.Contains(strings.Split(c.sandbox.toolHosts, ","), host) {
		return "", fmt.Errorf("tool_server_url: the host %q is not one of those that are allowed", host)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// probe asks a tool server whether it is well.
func probe(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// addCustom adds servers, or with PUT makes them all that there are.
func (c *control) addCustom(r *http.Request, body []byte) (int, reply) {
	if !decode(body, new(any)) {
		return wrong("Invalid request")
	}
	tools, err := c.sandbox.custom.add(r.Context(), body, r.Method == http.MethodPut)
	if mistake, ok := errors.AsType[invalid](err); ok {
		return wrong(mistake.Error())
	}
	if err != nil {
		return failed(http.StatusBadGateway, err)
	}
	return http.StatusOK, reply{Status: "success", Tools: tools}
}

func (c *control) removeCustom(r *http.Request, _ []byte) (int, reply) {
	found, err := c.sandbox.custom.remove(r.Context(), r.PathValue("server"))
	switch {
	case err != nil:
		return failed(http.StatusInternalServerError, err)
	case !found:
		return http.StatusNotFound, reply{Error: "there is no such server"}
	}
	return success()
}

// startSidecar starts a sidecar unless it runs, and says where it is.
func (c *control) startSidecar(r *http.Request, _ []byte) (int, reply) {
	name := cmp.Or(r.PathValue("name"), "codex")
	status, err := c.sidecars.start(r.Context(), name)
	switch {
	case errors.Is(err, errNoSidecar):
		return failed(http.StatusNotFound, err)
	case err != nil:
		return failed(http.StatusInternalServerError, err)
	}
	return http.StatusOK, reply{Status: status, URL: c.sidecars.known[name].url}
}
