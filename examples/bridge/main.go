// Bridge offers the MCP servers of a configuration file of an editor or chat program as one
// MCP server:
//
//	go run ./examples/bridge -config mcp.json
//	go run ./examples/bridge -config mcp.json -http 127.0.0.1:8080
//
// It serves standard input and output, or HTTP at /mcp. A tool is named alias__tool. The
// program applies changes of the file while it runs and does not restart servers whose
// configuration is the same.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	path := flag.String("config", "mcp.json", "the `file` that names the servers")
	address := flag.String("http", "", "the `address` to serve HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path, *address, os.Stderr); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("the bridge has ended", "error", err) // the handler quotes text of servers
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, path, address string, said io.Writer) error {
	desk, err := open(ctx, path, slog.New(slog.NewTextHandler(said, nil)))
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		desk.follow(following, 0)
	}()
	if address == "" {
		err = stdio.Serve(ctx, desk.face, nil)
	} else {
		err = desk.serveHTTP(ctx, address, said)
	}
	stop()
	<-followed
	return err
}

// A desk is a bridge and the server that it is mounted in.
type desk struct {
	path   string
	bridge *bridge.Bridge
	face   *server.Server
	logger *slog.Logger
}

// open reads the configuration. The first request starts the servers.
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

// servers returns the servers of a file with their variables expanded.
func (d *desk) servers(ctx context.Context, file *config.File) ([]bridge.Config, error) {
	for _, warning := range file.Warnings {
		d.logger.Warn("ignored part of the configuration", "file", file.Name, "warning", warning.String())
	}
	dial := &config.DialOptions{Stderr: os.Stderr, Logger: d.logger}
	return file.Bridge(ctx, &config.Expander{Prompt: config.PromptEnv}, dial)
}

// follow applies the file whenever it changes, until ctx ends. A file that is not valid
// changes nothing.
func (d *desk) follow(ctx context.Context, interval time.Duration) {
	_ = config.Watch(ctx, d.path, interval, func(file *config.File, err error) {
		if err == nil {
			err = d.update(ctx, file)
		}
		if err != nil && ctx.Err() == nil {
			d.logger.Error("the new configuration is not valid and was not applied", "error", err)
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

// serveHTTP serves MCP at /mcp and the states of the servers at /health until ctx ends, and
// prints the address.
func (d *desk) serveHTTP(ctx context.Context, address string, said io.Writer) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", d.health)
	return streamable.Serve(ctx, address, d.face, &streamable.ServeOptions{
		Other:    mux,
		OnListen: func(at net.Addr) { fmt.Fprintf(said, "serving http://%s/mcp and /health\n", at) },
	})
}

// health reports the state of each server. The reasons of failures are only in the log.
func (d *desk) health(w http.ResponseWriter, _ *http.Request) {
	type health struct {
		Alias    string        `json:"alias"`
		Status   bridge.Status `json:"status"`
		Since    time.Time     `json:"since"`
		Restarts int           `json:"restarts"`
		Tools    int           `json:"tools"`
	}
	list := []health{}
	for _, s := range d.bridge.States() {
		list = append(list, health{s.Alias, s.Status, s.Since, s.Restarts, s.Tools})
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		d.logger.Debug("the health response was not sent", "error", err)
	}
}
