package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A desk is the bridge with the server that shows it.
type desk struct {
	path   string
	bridge *bridge.Bridge
	face   *server.Server
	logger *slog.Logger
}

// open reads the configuration. Servers are started with the first request.
func open(ctx context.Context, path string, logger *slog.Logger) (*desk, error) {
	d := &desk{path: path, logger: logger}
	file, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	configs, err := d.servers(ctx, file)
	if err != nil {
		return nil, err
	}
	if d.bridge, err = bridge.New(&bridge.Options{Logger: logger}, configs...); err != nil {
		return nil, err
	}
	d.face = server.New(mcp.Implementation{Name: "bridge", Version: "1.0.0"}, &server.Options{Logger: logger})
	return d, d.face.Mount(d.bridge, nil)
}

// servers are those of a file, with values in place of variables.
func (d *desk) servers(ctx context.Context, file *config.File) ([]bridge.Config, error) {
	for _, warning := range file.Warnings {
		d.logger.Warn("something in the configuration has no effect", "file", file.Name, "warning", warning.String())
	}
	dial := &config.DialOptions{Stderr: os.Stderr, Logger: d.logger}
	return file.Bridge(ctx, &config.Expander{Ask: config.AskEnv}, dial)
}

// follow makes the servers those of the file whenever it changes, until ctx ends. One
// that is not valid changes nothing.
func (d *desk) follow(ctx context.Context, interval time.Duration) {
	_ = config.Watch(ctx, d.path, interval, func(file *config.File, err error) {
		if err == nil {
			err = d.update(ctx, file)
		}
		if err != nil && ctx.Err() == nil {
			d.logger.Error("the configuration is not valid: everything stays as it is", "error", err)
		}
	})
}

func (d *desk) update(ctx context.Context, file *config.File) error {
	configs, err := d.servers(ctx, file)
	if err != nil {
		return err
	}
	return d.bridge.Update(configs...)
}
