package features

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Replicas is what the replicas of the server have in common. The zero value is for one server.
type Replicas struct {
	store store.Store

	mu      sync.Mutex
	servers []*server.Server
	present map[string]bool // whether the entry of a tool of addToggle is registered
}

// ServeReplicas serves n replicas of the server on a store until ctx ends, behind a balancer that sends each
// request to the next one, whatever its session. It writes the address of the balancer to output.
func ServeReplicas(ctx context.Context, n int, address string, shared store.Store, output io.Writer) (err error) {
	all := &Replicas{store: shared}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx) // when one ends, all end
	defer stop()
	ended, targets := make(chan error, n), make([]*url.URL, n)
	for i := range targets {
		listening := make(chan net.Addr, 1)
		go func() {
			defer stop()
			ended <- streamable.Serve(ctx, "127.0.0.1:0", NewServer(all), &streamable.ServeOptions{OnListen: func(at net.Addr) { listening <- at }})
		}()
		select {
		case at := <-listening:
			targets[i] = &url.URL{Scheme: "http", Host: at.String()}
		case <-ctx.Done():
		}
	}
	upstream := &http.Transport{MaxIdleConnsPerHost: 100}
	defer upstream.CloseIdleConnections()
	balancer := &http.Server{Handler: roundRobin(targets, upstream), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- balancer.Serve(listener)
	}()
	fmt.Fprintf(output, "serving http://%s/mcp from %d replicas\n", listener.Addr(), n)

	<-ctx.Done()
	for range n { // before the balancer, which forwards their last answers
		err = errors.Join(err, <-ended)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if balancer.Shutdown(ending) != nil { // a connection has had no request
		err = errors.Join(err, balancer.Close())
	}
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// maxBody is the maximum length of a request in bytes.
const maxBody = 16 << 20

// roundRobin forwards each request to the next target. It reads the request's body first: net/http closes
// the connection to a server that answers before it has been sent the whole body.
func roundRobin(targets []*url.URL, upstream http.RoundTripper) http.Handler {
	var next atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Transport:     upstream,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(targets[next.Add(1)%uint64(len(targets))])
			r.Out.Host = r.In.Host // which the server checks
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}
