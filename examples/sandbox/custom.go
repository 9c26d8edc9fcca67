package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
)

// customPrefix stands before the names of tools of servers that are added at run time:
// mcp_SERVER_TOOL.
const customPrefix = "mcp_"

// custom are servers that are added and removed at run time.
type custom struct {
	*bridge.Bridge
	dial *config.DialOptions

	mu      sync.Mutex // of who changes which there are
	servers []bridge.Config
}

func newCustom(s *sandbox) (c *custom, err error) {
	// Those that are programs run below a guard, in the workspace.
	dial := &config.DialOptions{Wrap: s.commands.guard.Wrap, Dir: s.files.Dir(), Stderr: os.Stderr, Logger: s.logger}
	name := func(alias, name string) string {
		return strings.Replace(bridge.Name(alias, name), bridge.Separator, "_", 1)
	}
	b, err := bridge.New(&bridge.Options{Name: name, Logger: s.logger})
	return &custom{Bridge: b, dial: dial}, err
}

// load adds the servers of a file of this machine's user.
func (c *custom) load(ctx context.Context, path string) error {
	file, err := config.Load(path)
	if err != nil {
		return err
	}
	if c.servers, err = c.configs(ctx, file, &config.Expander{Ask: config.AskEnv}); err != nil {
		return err
	}
	return c.Update(c.servers...)
}

// configs are the servers of a file. None is called as rules call the sandbox.
func (c *custom) configs(ctx context.Context, file *config.File, expander *config.Expander) ([]bridge.Config, error) {
	servers, err := file.Bridge(ctx, expander, c.dial)
	if indexOf(servers, own) >= 0 {
		err = fmt.Errorf("mcpServers: %q is the name of the sandbox itself", own)
	}
	return servers, err
}

// invalid is what is wrong with a configuration.
type invalid struct{ error }

// add adds servers that somebody names over the network, in place of those with the same
// names, or of all, and returns the names of their tools. If one cannot be started,
// everything is as it was.
func (c *custom) add(ctx context.Context, text []byte, all bool) (tools []string, err error) {
	file, err := config.Parse(text, "mcp.json")
	if err == nil && len(file.Servers) == 0 {
		err = errors.New("expected at least one server in mcpServers")
	}
	if err != nil {
		return nil, invalid{err}
	}
	added, err := c.configs(ctx, file, &config.Expander{Verbatim: true})
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
	if err := c.Try(ctx, servers...); err != nil {
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

// remove removes a server and says whether it was there.
func (c *custom) remove(ctx context.Context, alias string) (found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := indexOf(c.servers, alias)
	if at < 0 {
		return false, nil
	}
	kept := slices.Delete(slices.Clone(c.servers), at, at+1)
	if err := c.Try(ctx, kept...); err != nil {
		return true, err
	}
	c.servers = kept
	return true, nil
}

func indexOf(servers []bridge.Config, alias string) int {
	return slices.IndexFunc(servers, func(s bridge.Config) bool { return s.Alias == alias })
}
