package config

import (
	"context"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/mcp"
)

// Bridge expands the servers of a file that are not disabled, for [bridge.New] and
// [bridge.Bridge.Update]. It returns those that can be reached, in order, and the errors of
// the others.
func (f *File) Bridge(ctx context.Context, e *Expander, opts *DialOptions) ([]bridge.Config, error) {
	list, err := f.Expand(ctx, e)
	errs := []error{err}
	configs := make([]bridge.Config, 0, len(list))
	for _, r := range list {
		config, err := r.Bridge(opts)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		configs = append(configs, config)
	}
	return configs, errors.Join(errs...)
}

// Bridge is the server as one of a bridge.
func (r *Resolved) Bridge(opts *DialOptions) (bridge.Config, error) {
	dialer, err := r.Dialer(opts)
	if err != nil {
		return bridge.Config{}, err
	}
	o := &r.Options
	config := bridge.Config{
		Alias: r.Alias, Dialer: dialer, Required: o.Required, Fingerprint: fmt.Sprintf("%s %#v", r.Fingerprint(), *o),
		ProxyOptions: bridge.ProxyOptions{
			Shared: o.Shared, Lazy: o.Lazy, IdleTimeout: o.IdleTimeout, ConnectTimeout: o.StartTimeout,
			CallTimeout: o.CallTimeout, MaxCalls: o.MaxCalls, Launch: r.Launch(),
			Select:   func(kind mcp.Kind, name string) bool { return kind != mcp.KindTool || o.Tools.Permits(name) },
			Expect:   o.Tools.named(),
			Rename:   make(map[string]string),
			Override: make(map[string]bridge.Override),
		},
	}
	for name, override := range o.Tools.Override {
		if override.Name != "" {
			config.Rename[name] = override.Name
		}
		config.Override[name] = bridge.Override{Title: override.Title, Description: override.Description}
	}
	return config, nil
}
