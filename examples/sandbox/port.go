package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
)

// maxPorts is how many ports may be registered.
const maxPorts = 16

// Ports is the tool that makes a server in the sandbox visible.
type Ports struct {
	logger *slog.Logger

	mu    sync.Mutex
	ports map[int]*http.Server
	group sync.WaitGroup // of those that serve
}

// RegisterPortIn are the arguments of [Ports.RegisterPort].
type RegisterPortIn struct {
	_    server.ToolTag `destructive:"false" idempotent:"true" openWorld:"true" timeout:"30s" tags:"ports"`
	Port int            `json:"port" jsonschema:"minimum=1,maximum=65535"` // where the server listens, on this machine
}

// A PortURL is where a registered port is found.
type PortURL struct {
	URL string `json:"url"`
}

// RegisterPort makes an HTTP server that runs here visible at a URL. It waits until the
// server listens.
func (p *Ports) RegisterPort(ctx context.Context, in RegisterPortIn) (PortURL, error) {
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	target, err := process.AwaitLoopback(waiting, in.Port)
	if err != nil {
		return PortURL{}, fmt.Errorf("nothing listens at port %d: start the server with run_background", in.Port)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if web := p.ports[in.Port]; web != nil {
		return PortURL{"http://" + web.Addr + "/"}, nil
	}
	if len(p.ports) >= maxPorts {
		p.forget()
	}
	if len(p.ports) >= maxPorts {
		return PortURL{}, fmt.Errorf("%d ports are registered already", maxPorts)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return PortURL{}, err
	}
	web := &http.Server{Addr: listener.Addr().String(), Handler: forward(target), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	if p.ports == nil {
		p.ports = make(map[int]*http.Server)
	}
	p.ports[in.Port] = web
	p.group.Go(func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.logger.Error("a registered port is not served any more", "port", in.Port, "error", err)
		}
	})
	return PortURL{"http://" + web.Addr + "/"}, nil
}

// forget ends what leads to ports at which nobody listens any more.
func (p *Ports) forget() {
	for port, web := range p.ports {
		if _, ok := process.Loopback(port); !ok {
			_ = web.Close() // nobody misses it
			delete(p.ports, port)
		}
	}
}

// forward is a reverse proxy to an address of this machine. It answers requests for this
// machine only: a page from elsewhere cannot have its own name lead here.
func forward(address string) http.Handler {
	target := &url.URL{Scheme: "http", Host: address}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil || host != "127.0.0.1" && host != "localhost" {
			http.Error(w, "expected a request for this machine", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

func (p *Ports) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, web := range p.ports {
		errs = append(errs, web.Close())
	}
	p.group.Wait()
	return errors.Join(errs...)
}
