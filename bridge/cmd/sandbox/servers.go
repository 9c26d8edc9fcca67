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
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/process"
)

const (
	maxBody        = 1 << 20 // bytes
	maxCredentials = 64      // sessions
)

// control has the control routes.
type control struct {
	sandbox  *sandbox
	sidecars sidecars

	mu          sync.Mutex
	credentials map[string]string // keys of users by session; never printed
	registered  bool              // the tools of the sandbox are registered
}

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

func health(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, reply{Status: "ok"}) }

// handler serves the control routes, also below /mcp for older programs. It refuses requests
// of web pages of any origin.
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

// decode reads a body that must be a non-empty object.
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

// setToolServer sets TOOL_SERVER_URL for commands and registers the tools of the sandbox.
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

// toolServer validates the URL of a tool server. Its host must be this machine or a host of
// -tool-hosts.
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

// probe checks /health of a tool server.
func probe(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy
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

// addCustom adds servers, or replaces all of them for PUT.
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

// startSidecar starts a sidecar unless it runs, and returns its URL.
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

// customPrefix begins the names of tools of added servers: mcp_SERVER_TOOL.
const customPrefix = "mcp_"

// custom manages servers that are added and removed at run time.
type custom struct {
	*bridge.Bridge
	dial *config.DialOptions

	mu      sync.Mutex // held during a change of the servers
	servers []bridge.Config
}

func newCustom(s *sandbox) (c *custom, err error) {
	// Child processes run supervised, in the workspace.
	dial := &config.DialOptions{Wrap: s.commands.guard.Wrap, Dir: s.files.Dir(), Stderr: os.Stderr, Logger: s.logger}
	name := func(alias, name string) string {
		return strings.Replace(bridge.Name(alias, name), bridge.Separator, "_", 1)
	}
	b, err := bridge.New(&bridge.Options{Name: name, Logger: s.logger})
	return &custom{Bridge: b, dial: dial}, err
}

// load adds the servers of a configuration file.
func (c *custom) load(ctx context.Context, path string) error {
	file, err := config.Load(path)
	if err != nil {
		return err
	}
	if c.servers, err = c.configs(ctx, file, &config.Expander{Prompt: config.PromptEnv}); err != nil {
		return err
	}
	return c.Update(c.servers...)
}

// configs returns the servers of a file. None may have the name of the sandbox.
func (c *custom) configs(ctx context.Context, file *config.File, expander *config.Expander) ([]bridge.Config, error) {
	servers, err := file.Bridge(ctx, expander, c.dial)
	if indexOf(servers, own) >= 0 {
		err = fmt.Errorf("mcpServers: %q is the name of the sandbox itself", own)
	}
	return servers, err
}

// invalid is an error in a configuration.
type invalid struct{ error }

// add adds servers of a control request. It replaces servers with the same names, or all
// servers, and returns the names of the tools. If a server does not start, nothing changes.
func (c *custom) add(ctx context.Context, text []byte, all bool) (tools []string, err error) {
	file, err := config.Parse(text, "mcp.json")
	if err == nil && len(file.Servers) == 0 {
		err = errors.New("expected at least one server in mcpServers")
	}
	if err != nil {
		return nil, invalid{err}
	}
	added, err := c.configs(ctx, file, &config.Expander{NoExpand: true})
	if err != nil {
		return nil, invalid{err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var servers []bridge.Config
	if !all {
		servers = slices.Clone(c.servers)
	}
	for _, server := range added {
		if at := indexOf(servers, server.Alias); at >= 0 {
			servers[at] = server
		} else {
			servers = append(servers, server)
		}
	}
	if err := c.UpdateAll(ctx, servers...); err != nil {
		return nil, err
	}
	c.servers = servers
	for e := range c.Catalog().All(mcp.KindTool) {
		if indexOf(added, e.Origin.Server) >= 0 {
			tools = append(tools, customPrefix+e.Name)
		}
	}
	return tools, nil
}

// remove removes a server and reports whether it existed.
func (c *custom) remove(ctx context.Context, alias string) (found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := indexOf(c.servers, alias)
	if at < 0 {
		return false, nil
	}
	kept := slices.Delete(slices.Clone(c.servers), at, at+1)
	if err := c.UpdateAll(ctx, kept...); err != nil {
		return true, err
	}
	c.servers = kept
	return true, nil
}

func indexOf(servers []bridge.Config, alias string) int {
	return slices.IndexFunc(servers, func(s bridge.Config) bool { return s.Alias == alias })
}

// A sidecar is a program that a control request starts.
type sidecar struct {
	url, host string
	command   []string
}

// codex is the predefined sidecar.
func codex() sidecar {
	return sidecar{"http://127.0.0.1:1324", "127.0.0.1:1324", []string{"sse-http-server", "--addr", "127.0.0.1:1324"}}
}

// parseSidecar reads NAME=URL COMMAND ARGUMENTS….
func parseSidecar(text string) (name string, s sidecar, err error) {
	name, rest, _ := strings.Cut(text, "=")
	fields := strings.Fields(rest)
	if name == "" || len(fields) < 2 {
		return "", s, errors.New("expected NAME=URL COMMAND ARGUMENTS…")
	}
	u, err := url.Parse(fields[0])
	if err != nil || u.Port() == "" {
		return "", s, fmt.Errorf("the URL %q: expected one with a port", fields[0])
	}
	return name, sidecar{fields[0], u.Host, fields[1:]}, nil
}

// sidecars are the known sidecars and their processes.
type sidecars struct {
	commands *Commands
	known    map[string]sidecar

	mu      sync.Mutex
	running map[string]*process.Process
}

var errNoSidecar = errors.New("there is no sidecar of this name")

func (s *sidecars) start(ctx context.Context, name string) (status string, err error) {
	known, ok := s.known[name]
	if !ok {
		return "", errNoSidecar
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.running[name]; p != nil && p.Running() {
		return "already_running", nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("it does not listen"))
	defer cancel()
	p, err := s.commands.guard.StartServer(ctx, s.commands.in(&process.Command{Path: known.command[0], Args: known.command[1:]}), known.host)
	if err != nil {
		return "", err
	}
	if s.running == nil {
		s.running = make(map[string]*process.Process)
	}
	s.running[name] = p
	return "success", nil
}

func (s *sidecars) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.running {
		p.Stop()
	}
}
