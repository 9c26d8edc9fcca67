package soak

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

const (
	// addressVariable is where a process serves.
	addressVariable = "SOAK_ADDRESS"
	// farVariable is where the far server over HTTP is.
	farVariable = "SOAK_FAR"
)

// keepBooks is a process: a server behind the bridge that notes what it executes. It
// serves over standard input and output unless it has an address.
func keepBooks() error {
	books := ledger(os.Getenv(ledgerVariable))
	if err := books.begins(); err != nil {
		return err
	}
	s := server.New(mcp.Implementation{Name: "bookkeeper", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "book"}, func(ctx context.Context, _ *server.Request, in echoIn) (string, error) {
		if err := books.executes(in.Nonce); err != nil {
			return "", err
		}
		select { // so that there is always a call under way
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
		return fmt.Sprintf("%s by %d", in.Nonce, os.Getpid()), nil
	})
	if address := os.Getenv(addressVariable); address != "" {
		return serveAt(address, s)
	}
	return stdio.Serve(context.Background(), s, nil)
}

// serveBridge is a process: a bridge to the far servers.
func serveBridge() error {
	logger := slog.New(slog.DiscardHandler)
	configs := make([]bridge.Config, len(far))
	for i, f := range far {
		dialer := streamable.Dial("http://"+os.Getenv(farVariable)+"/mcp", &streamable.DialOptions{Logger: logger})
		if f.stdio {
			dialer = stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
				InheritEnv: true, Env: []string{roleVariable + "=bookkeeper", addressVariable + "="}, Stderr: os.Stderr,
			})
		}
		configs[i] = bridge.Config{Alias: f.alias, Dialer: dialer, ProxyOptions: bridge.ProxyOptions{Era: f.era}}
	}
	b, err := bridge.New(&bridge.Options{Logger: logger}, configs...)
	if err != nil {
		return err
	}
	face := server.New(mcp.Implementation{Name: "bridge", Version: "1"}, &server.Options{Logger: logger})
	if err := face.Mount(b, nil); err != nil {
		return err
	}
	return serveAt(os.Getenv(addressVariable), face)
}

// serveAt serves over HTTP until the input ends.
func serveAt(address string, s *server.Server) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	overStreamable := streamable.Handler(s, &streamable.Options{Logger: quiet})
	overWS := ws.Handler(s, &ws.Options{Logger: quiet})
	mux := http.NewServeMux()
	mux.Handle("/mcp", overStreamable)
	mux.Handle("/ws", overWS)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = s.Shutdown(ctx)
	_ = overStreamable.Close()
	_ = overWS.Close()
	_ = web.Close()
	<-served
	return err
}
