package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

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
