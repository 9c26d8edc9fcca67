package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Prefix begins the names of the tools of added servers: mcp_SERVER_TOOL. Use it in
// server.MountOptions.
const Prefix = "mcp_"

// ErrTooManyServers is returned for more servers than [ServersOptions].Max.
var ErrTooManyServers = errors.New("control: there are too many servers")

// ServersOptions configure [Servers]. The zero value is ready to use.
type ServersOptions struct {
	// Dial says how servers are reached and started. Use process.Guard.Wrap to end all processes
	// of a server with it.
	Dial *config.DialOptions
	// Reserved are names that no added server may have, such as the names of the program's own servers in a policy.
	Reserved []string
	// Max is the maximum number of servers. Default 64.
	Max int
	// Logger logs problems of servers. Default slog.Default().
	Logger *slog.Logger
}

// Servers are upstream servers that are added and removed at run time: a server.Provider. Mount
// it with [Prefix]. All methods may be called concurrently.
type Servers struct {
	opts   ServersOptions
	bridge *bridge.Bridge

	running      chan struct{} // closed when the bridge runs
	closeRunning func()

	mu      sync.Mutex // held during a change of the servers
	servers []bridge.Config
}

// NewServers returns a provider without servers. opts may be nil.
func NewServers(opts *ServersOptions) (*Servers, error) {
	o := *cmp.Or(opts, new(ServersOptions))
	o.Max = cmp.Or(o.Max, 64)
	name := func(alias, name string) string {
		return strings.Replace(bridge.Name(alias, name), bridge.Separator, "_", 1)
	}
	b, err := bridge.New(&bridge.Options{Name: name, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	c := &Servers{opts: o, bridge: b, running: make(chan struct{})}
	c.closeRunning = sync.OnceFunc(func() { close(c.running) })
	return c, nil
}

// Catalog returns the entries of all servers, without [Prefix].
func (c *Servers) Catalog() *server.Catalog { return c.bridge.Catalog() }

// Run connects to the servers until ctx ends; server.Server.Mount calls it.
func (c *Servers) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	return c.bridge.Run(ctx, func() {
		c.closeRunning()
		ready()
	}, changed)
}

// startWait bounds how long a change waits for a server that accepts requests while it starts.
const startWait = 30 * time.Second

// update replaces all servers. c.mu must be held.
func (c *Servers) update(ctx context.Context, servers []bridge.Config) error {
	waiting, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	select {
	case <-c.running:
	case <-waiting.Done(): // UpdateAll returns the error
	}
	if err := c.bridge.UpdateAll(ctx, servers...); err != nil {
		return err
	}
	c.servers = servers
	return nil
}

// States returns the states of all servers.
func (c *Servers) States() []bridge.State { return c.bridge.States() }

// Load replaces all servers by the servers of a configuration file. Variables in the file are expanded. It does not
// wait until the servers have started.
func (c *Servers) Load(ctx context.Context, path string) error {
	file, err := config.Load(path)
	if err != nil {
		return err
	}
	servers, err := c.configs(ctx, file, &config.Expander{Prompt: config.PromptEnv})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(servers) > c.opts.Max {
		return ErrTooManyServers
	}
	if err := c.bridge.Update(servers...); err != nil {
		return err
	}
	c.servers = servers
	return nil
}

// configs returns the servers of a file.
func (c *Servers) configs(ctx context.Context, file *config.File, expander *config.Expander) ([]bridge.Config, error) {
	servers, err := file.Bridge(ctx, expander, c.opts.Dial)
	for _, name := range c.opts.Reserved {
		if indexOf(servers, name) >= 0 {
			return nil, fmt.Errorf("mcpServers: %q is reserved", name)
		}
	}
	return servers, err
}

// A configError is an error in a configuration.
type configError struct{ error }

// add adds servers of a control request. It replaces servers with the same names, or all
// servers, and returns the names of the tools. If a server does not start, nothing changes.
func (c *Servers) add(ctx context.Context, text []byte, all bool) (tools []string, err error) {
	file, err := config.Parse(text, "mcp.json")
	switch {
	case err != nil:
	case len(file.Servers) == 0:
		err = errors.New("expected at least one server in mcpServers")
	default: // later requests use the same names, so none is derived
		for _, s := range file.Servers {
			err = errors.Join(err, bridge.CheckAlias(s.Name))
		}
	}
	if err != nil {
		return nil, &configError{err}
	}
	added, err := c.configs(ctx, file, &config.Expander{NoExpand: true})
	if err != nil {
		return nil, &configError{err}
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
	if len(servers) > c.opts.Max {
		return nil, ErrTooManyServers
	}
	if err := c.update(ctx, servers); err != nil {
		return nil, err
	}
	for e := range c.Catalog().All(mcp.KindTool) {
		if indexOf(added, e.Origin.Server) >= 0 {
			tools = append(tools, Prefix+e.Name)
		}
	}
	return tools, nil
}

// Remove removes a server and reports whether it existed. Running calls of its tools end.
func (c *Servers) Remove(ctx context.Context, alias string) (found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := indexOf(c.servers, alias)
	if at < 0 {
		return false, nil
	}
	kept := slices.Delete(slices.Clone(c.servers), at, at+1)
	return true, c.update(ctx, kept)
}

func indexOf(servers []bridge.Config, alias string) int {
	return slices.IndexFunc(servers, func(s bridge.Config) bool { return s.Alias == alias })
}
