package control

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

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/server/shell"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

const (
	maxBody = 1 << 20 // bytes

	// userVariable is the environment variable of a credential.
	userVariable = "USER_API_KEY"
	// toolServerVariable is the environment variable of the tool server.
	toolServerVariable = "TOOL_SERVER_URL"
)

// Options configure a [Control]. Shell is required.
type Options struct {
	// Shell gets the credentials and the URL of the tool server, and starts the sidecars.
	Shell *shell.Shell
	// Servers are changed by the routes of /custom-mcp. Default: there are no such routes.
	Servers *Servers
	// Sidecars are the programs that a request may start, by name.
	Sidecars map[string]Sidecar
	// ToolHosts are the hosts that a tool server may have, in addition to this machine.
	ToolHosts []string
	// OnToolServer is called after a tool server has been set, for example to register tools.
	// Calls do not overlap. An error makes the request fail with the status 500. Default: none.
	OnToolServer func(ctx context.Context, url string) error
	// Authenticator accepts or rejects requests. By default it has one random token; see
	// [Control.Authenticator].
	Authenticator *gateway.Authenticator
}

// A Control is an http.Handler with the control routes. Create one with [New]. All methods may
// be called concurrently.
type Control struct {
	opts     Options
	handler  http.Handler
	sidecars sidecars
	setting  sync.Mutex // held while a tool server is set
}

// New returns the control routes of a server. The error says which option is invalid.
func New(opts *Options) (*Control, error) {
	o := *cmp.Or(opts, new(Options))
	if o.Shell == nil {
		return nil, errors.New("control: Options.Shell: expected a shell")
	}
	for name, s := range o.Sidecars {
		if err := s.validate(); err != nil {
			return nil, fmt.Errorf("control: Options.Sidecars: %.256q: %w", name, err)
		}
	}
	if o.Authenticator == nil {
		o.Authenticator, _ = gateway.NewAuthenticator(nil) // no option can be invalid
	}
	c := &Control{opts: o, sidecars: sidecars{shell: o.Shell, known: o.Sidecars}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, reply{Status: "ok"}) })
	mux.Handle("/", o.Authenticator.Handler(c.routes()))
	c.handler = mux
	return c, nil
}

// Authenticator returns the authenticator of the routes; see its method Token.
func (c *Control) Authenticator() *gateway.Authenticator { return c.opts.Authenticator }

// ServeHTTP serves the control routes; the package comment lists them.
func (c *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Close stops all sidecars and waits for their end. Later requests start none.
func (c *Control) Close() { c.sidecars.close() }

// A reply is the body of a response.
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
		return // the client is gone
	}
}

// routes serves the control routes, also below /mcp for older programs. It refuses requests of
// web pages of any origin.
func (c *Control) routes() http.Handler {
	routes := map[string]func(r *http.Request, body []byte) (int, reply){
		"POST /credential": c.setCredential, "POST /tool-server-url": c.setToolServer,
		"POST /sidecars/{name}": c.startSidecar, "POST /register-codex": c.startSidecar,
	}
	if c.opts.Servers != nil {
		routes["POST /custom-mcp"], routes["PUT /custom-mcp"] = c.addServers, c.addServers
		routes["DELETE /custom-mcp/{server}"] = c.removeServer
	}
	mux := http.NewServeMux()
	for route, serve := range routes {
		method, path, _ := strings.Cut(route, " ")
		for _, base := range []string{"", "/mcp"} {
			mux.HandleFunc(method+" "+base+path, func(w http.ResponseWriter, r *http.Request) {
				if len(r.Header["Origin"]) > 0 {
					answer(w, http.StatusForbidden, reply{Error: "requests of web pages are refused"})
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

// decode reads a body that must be a non-empty object.
func decode(body []byte, into any) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(body, &members) == nil && len(members) > 0 && json.Unmarshal(body, into) == nil
}

func (c *Control) setCredential(_ *http.Request, body []byte) (int, reply) {
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
	err := c.opts.Shell.Credentials().Set(in.SessionID, userVariable, in.UserAPIKey)
	if errors.Is(err, shell.ErrTooManyCredentials) {
		return http.StatusConflict, reply{Error: "there are credentials of too many sessions"}
	}
	if err != nil {
		return wrong(err.Error())
	}
	return success()
}

// setToolServer sets the URL of the tool server for commands and calls Options.OnToolServer.
func (c *Control) setToolServer(r *http.Request, body []byte) (int, reply) {
	var in struct {
		URL string `json:"tool_server_url"`
	}
	c.setting.Lock()
	defer c.setting.Unlock()
	switch {
	case !decode(body, &in):
		return wrong("Invalid request")
	case c.opts.Shell.Credentials().Len() == 0:
		return wrong("Credential must be set before setting tool server url")
	}
	base, err := c.toolServer(in.URL)
	if err != nil {
		return wrong(err.Error())
	}
	if err := probe(r.Context(), base); err != nil {
		return http.StatusInternalServerError, reply{Status: "error", Message: "Can't connect to tool server: " + err.Error()}
	}
	if err := c.opts.Shell.Setenv(toolServerVariable, base); err != nil {
		return wrong(err.Error())
	}
	if c.opts.OnToolServer != nil {
		if err := c.opts.OnToolServer(r.Context(), base); err != nil {
			return failed(http.StatusInternalServerError, err)
		}
	}
	return success()
}

// toolServer validates the URL of a tool server.
func (c *Control) toolServer(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("tool_server_url: expected a URL that begins with http:// or https://, without a user, a query and a fragment")
	}
	host := u.Hostname()
	if host != "localhost" && !net.ParseIP(host).IsLoopback() && !slices.Contains(c.opts.ToolHosts, host) {
		return "", fmt.Errorf("tool_server_url: the host %q is not one of those that are allowed", host)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// probe checks /health of a tool server.
func probe(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
	if err != nil {
		return err
	}
	client := httptransport.NewClient(func(settings *http.Transport) { settings.Proxy, settings.DisableKeepAlives = nil, true })
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// addServers adds servers, or replaces all of them for PUT.
func (c *Control) addServers(r *http.Request, body []byte) (int, reply) {
	if !decode(body, new(any)) {
		return wrong("Invalid request")
	}
	tools, err := c.opts.Servers.add(r.Context(), body, r.Method == http.MethodPut)
	if mistake, ok := errors.AsType[*configError](err); ok {
		return wrong(mistake.Error())
	}
	if errors.Is(err, ErrTooManyServers) {
		return http.StatusConflict, reply{Error: err.Error()}
	}
	if err != nil {
		return failed(http.StatusBadGateway, err)
	}
	return http.StatusOK, reply{Status: "success", Tools: tools}
}

func (c *Control) removeServer(r *http.Request, _ []byte) (int, reply) {
	found, err := c.opts.Servers.Remove(r.Context(), r.PathValue("server"))
	switch {
	case err != nil:
		return failed(http.StatusInternalServerError, err)
	case !found:
		return http.StatusNotFound, reply{Error: "there is no such server"}
	}
	return success()
}

// startSidecar starts a sidecar unless it runs, and returns its URL.
func (c *Control) startSidecar(r *http.Request, _ []byte) (int, reply) {
	name := cmp.Or(r.PathValue("name"), "codex")
	status, err := c.sidecars.start(r.Context(), name)
	switch {
	case errors.Is(err, errNoSidecar):
		return failed(http.StatusNotFound, err)
	case err != nil:
		return failed(http.StatusInternalServerError, err)
	}
	return http.StatusOK, reply{Status: status, URL: c.sidecars.known[name].URL}
}
