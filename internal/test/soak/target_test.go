package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A target is the tested server, at the paths /mcp, /sse and /ws. /state returns its
// state.
type target struct {
	mcp      *server.Server
	flooding atomic.Int64 // running calls
	flooded  atomic.Int64 // started calls
	quiet    *slog.Logger
	// writeTimeout is how long the target waits for a client that does not read.
	writeTimeout time.Duration
}

type echoIn struct {
	Nonce string `json:"nonce"`
}

type floodIn struct {
	Count int `json:"count"`
	Size  int `json:"size"`
}

func newTarget() *target {
	quiet := slog.New(slog.DiscardHandler)
	t := &target{quiet: quiet, writeTimeout: time.Second, mcp: server.New(mcp.Implementation{Name: "target", Version: "1"}, &server.Options{RetainedBytes: 512 << 20, Logger: quiet})}
	server.AddTool(t.mcp, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (string, error) {
		return in.Nonce, nil
	})
	server.AddTool(t.mcp, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, in echoIn) (string, error) {
		answer, err := server.Elicit[echoIn](r, "nonce", in.Nonce)
		return answer.Nonce, err
	})
	server.AddTool(t.mcp, server.Tool{Name: "step"}, func(ctx context.Context, r *server.Request, in echoIn) (string, error) {
		for i := range steps {
			if err := r.Progress(ctx, float64(i+1), steps, in.Nonce); err != nil {
				return "", err
			}
		}
		return in.Nonce, ctx.Err()
	})
	server.AddTool(t.mcp, server.Tool{Name: "flood"}, func(ctx context.Context, r *server.Request, in floodIn) (string, error) {
		t.flooded.Add(1)
		t.flooding.Add(1)
		defer t.flooding.Add(-1)
		message := strings.Repeat("x", in.Size)
		for i := range in.Count {
			if err := r.Progress(ctx, float64(i+1), 0, message); err != nil {
				return "", err
			}
		}
		return "", ctx.Err()
	})
	return t
}

// steps is how often the tool step reports progress.
const steps = 2

// A state is the resources of a process after a garbage collection.
type state struct {
	Goroutines  int
	Heap        int64 // bytes, stacks included
	Descriptors int
	Flooding    int64
	Flooded     int64
	Blocked     bool // goroutines are blocked forever, if leaktest can find them
}

func (t *target) state() state {
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	descriptors, _ := os.ReadDir("/proc/self/fd") // only on Linux
	return state{runtime.NumGoroutine(), int64(stats.HeapAlloc + stats.StackInuse), len(descriptors), t.flooding.Load(), t.flooded.Load(), leaktest.Check(io.Discard) != 0}
}

// mux returns the target's routes, and a function that closes its endpoints.
func (t *target) mux() (mux *http.ServeMux, closeAll func()) {
	overStreamable := streamable.Handler(t.mcp, &streamable.Options{Limits: transport.Limits{WriteTimeout: t.writeTimeout, Subscriptions: 20_000}, Logger: t.quiet})
	overSSE := sse.Handler(t.mcp, &sse.Options{Limits: transport.Limits{WriteTimeout: t.writeTimeout}, Logger: t.quiet})
	overWS := ws.Handler(t.mcp, &ws.Options{Limits: transport.Limits{WriteTimeout: t.writeTimeout}, Logger: t.quiet})
	mux = http.NewServeMux()
	mux.Handle("/mcp", overStreamable)
	mux.Handle("/sse", overSSE)
	mux.Handle("/ws", overWS)
	mux.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(t.state()) })
	return mux, func() {
		_ = overStreamable.Close()
		_ = overSSE.Close()
		_ = overWS.Close()
	}
}

// serveHTTP is the main function of a target over HTTP. It prints its address, and ends
// when its standard input ends.
func serveHTTP() error { return serveTarget(newTarget()) }

func serveTarget(t *target) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux, closeAll := t.mux()
	s := httptransport.NewServer(mux)
	s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		closeAll()
		_ = s.Close()
	}()
	if err := s.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// maxHeader is the maximum length of a request's header, in bytes.
const maxHeader = 16 << 10

// serveStdio is the main function of a target over stdio.
func serveStdio() error { return stdio.Serve(context.Background(), newTarget().mcp, nil) }

// echoed calls a tool of the target and returns the text of its result.
func echoed(ctx context.Context, session *client.Session, tool, nonce string) (string, error) {
	result, err := session.CallTool(ctx, tool, echoIn{nonce}, nil)
	if err != nil {
		return "", err
	}
	if text := textOf(result); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("the result of %s has no text", tool)
}

// textOf returns the text of a result, "" if it has none.
func textOf(result *mcp.CallToolResult) string {
	if len(result.Content) == 1 && !result.IsError {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

const (
	// addressVariable holds the address at which a process serves.
	addressVariable = "SOAK_ADDRESS"
	// upstreamVariable holds the address of the upstream over HTTP.
	upstreamVariable = "SOAK_FAR"
)

// serveRecorder is the main function of a server behind the bridge that logs the calls
// that it executes. It serves over stdio unless it has an address.
func serveRecorder() error {
	log := executionLog(os.Getenv(logVariable))
	if err := log.logStart(); err != nil {
		return err
	}
	s := server.New(mcp.Implementation{Name: "recorder", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "record"}, func(ctx context.Context, _ *server.Request, in echoIn) (string, error) {
		if err := log.logCall(in.Nonce); err != nil {
			return "", err
		}
		select { // so that a call is always running
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

// serveBridge is the main function of a bridge to the upstreams.
func serveBridge() error {
	logger := slog.New(slog.DiscardHandler)
	configs := make([]bridge.Config, len(upstreams))
	for i, f := range upstreams {
		dialer := streamable.Dial("http://"+os.Getenv(upstreamVariable)+"/mcp", &streamable.DialOptions{Logger: logger})
		if f.stdio {
			dialer = stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
				InheritEnv: true, Env: []string{roleVariable + "=recorder", addressVariable + "="}, Stderr: os.Stderr,
			})
		}
		configs[i] = bridge.Config{Alias: f.alias, Dialer: dialer, ProxyOptions: bridge.ProxyOptions{Era: f.era}}
	}
	b, err := bridge.New(&bridge.Options{Logger: logger}, configs...)
	if err != nil {
		return err
	}
	front := server.New(mcp.Implementation{Name: "bridge", Version: "1"}, &server.Options{Logger: logger})
	if err := front.Mount(b, nil); err != nil {
		return err
	}
	return serveAt(os.Getenv(addressVariable), front)
}

// serveAt serves over HTTP until the standard input ends.
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
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err = s.Shutdown(ctx)
	_ = overStreamable.Close()
	_ = overWS.Close()
	_ = web.Close()
	<-served
	return err
}
