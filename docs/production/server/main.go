// Server is the server of docs/production.md: one tool, with tokens, logs and an orderly shutdown.
//
//	go run ./docs/production/server [-http ADDRESS] [-drain DURATION] [-config FILE]
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A config is the file with the settings. Only the server may read it.
type config struct {
	Host   string            // the public name of the server
	Tokens map[string]string // the name of each caller, by its token
	Secret string            // 64 random hexadecimal digits, the same in all replicas
}

func main() {
	address := flag.String("http", ":8080", "the `address` to serve HTTP at")
	drain := flag.Duration("drain", 5*time.Second, "how long calls are accepted after SIGTERM, so that a balancer notices that /readyz says 503")
	file := flag.String("config", "config.json", "the `file` with the settings")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *drain, *file); err != nil {
		slog.Error("the server failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string, drain time.Duration, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if secret, err := hex.DecodeString(c.Secret); err != nil || len(secret) != 32 {
		return errors.New("the secret must be 64 random hexadecimal digits")
	}
	callers, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Tokens: c.Tokens, Hosts: []string{c.Host}})
	if err != nil {
		return err
	}
	return streamable.Serve(ctx, address, newServer(c.key("state")), &streamable.ServeOptions{
		Options:         streamable.Options{Hosts: []string{c.Host}},
		Wrap:            callers.Handler,
		Drain:           drain,
		ShutdownTimeout: 20 * time.Second, // with Drain less than the 30 s after which the orchestrator kills the process
	})
}

// key derives a key for one purpose from the secret.
func (c *config) key(purpose string) []byte {
	key := sha256.Sum256([]byte(purpose + "\x00" + c.Secret))
	return key[:]
}

func newServer(stateKey []byte) *server.Server {
	audit := &gateway.Audit{}
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{audit.Middleware}, // logs each call
		StateKeys:  [][]byte{stateKey},
	})
	server.AddTool(s, server.Tool{Name: "divide", Description: "Divide two numbers.", Timeout: 5 * time.Second}, divide)
	return s
}

type divideIn struct {
	Dividend float64 `json:"dividend" description:"the number to divide"`
	Divisor  float64 `json:"divisor" description:"the number to divide by, not 0"`
}

func divide(_ context.Context, _ *server.Request, in divideIn) (float64, error) {
	if in.Divisor == 0 {
		return 0, errors.New("the divisor is 0: choose another one")
	}
	return in.Dividend / in.Divisor, nil
}
