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

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A target is the server that is abused, at the paths /mcp, /sse and /ws; /state
// tells how it is.
type target struct {
	mcp      *server.Server
	flooding atomic.Int64 // calls that go on
	flooded  atomic.Int64 // calls that have begun
	quiet    *slog.Logger
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
	t := &target{quiet: quiet, mcp: server.New(mcp.Implementation{Name: "target", Version: "1"}, &server.Options{Logger: quiet})}
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

// steps is how often the tool step tells of its progress.
const steps = 2

// writeTimeout is how soon the target gives up on a client that reads nothing.
const writeTimeout = time.Second

// A state is how a process is, after a garbage collection.
type state struct {
	Goroutines  int
	Heap        int64 // bytes, stacks included
	Descriptors int
	Flooding    int64
	Flooded     int64
}

func (t *target) state() state {
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	descriptors, _ := os.ReadDir("/proc/self/fd") // none where there is no such thing
	return state{runtime.NumGoroutine(), int64(stats.HeapAlloc + stats.StackInuse), len(descriptors), t.flooding.Load(), t.flooded.Load()}
}

// mux returns the target's routes, and what closes its endpoints.
func (t *target) mux() (mux *http.ServeMux, closeAll func()) {
	overStreamable := streamable.Handler(t.mcp, &streamable.Options{WriteTimeout: writeTimeout, MaxListens: 20_000, Logger: t.quiet})
	overSSE := sse.Handler(t.mcp, &sse.Options{WriteTimeout: writeTimeout, Logger: t.quiet})
	overWS := ws.Handler(t.mcp, &ws.Options{WriteTimeout: writeTimeout, Logger: t.quiet})
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

// serveHTTP is a process. It prints its address, and ends with its input.
func serveHTTP() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux, closeAll := newTarget().mux()
	s := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
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

// maxHeader is how many bytes of a request's header the target takes.
const maxHeader = 64 << 10

// serveStdio is a process.
func serveStdio() error { return stdio.Serve(context.Background(), newTarget().mcp, nil) }
