package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// serveHTTP serves MCP at /mcp and how the servers do at /health until ctx ends, and says
// where.
func (d *desk) serveHTTP(ctx context.Context, address string, said io.Writer) error {
	endpoint := streamable.Handler(d.face, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.HandleFunc("GET /health", d.health)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(listener)
		close(served)
	}()
	fmt.Fprintf(said, "serving http://%s/mcp and /health\n", listener.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	// Calls may finish; then what is left are connections on which nothing has come.
	err = errors.Join(err, d.shutdown(ctx), endpoint.Close(), web.Close())
	<-served
	return err
}

// health says how each server does, but not why: that is for who reads the log.
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
		d.logger.Debug("nobody reads how the servers do", "error", err)
	}
}
