package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// maxForwarded is the number of requests that one registered port forwards at the same time.
const maxForwarded = 256

// ports is the service with register_port.
type ports struct {
	template string // [Options].PortURL
	allowed  []int  // [Options].Ports
	owns     func(address string) bool
	limit    int
	logger   *slog.Logger

	mu     sync.Mutex
	closed bool
	ports  map[int]*http.Server
	group  sync.WaitGroup // running servers
}

type registerPortIn struct {
	_    server.ToolTag `destructive:"false" idempotent:"true" openWorld:"true" timeout:"30s" tags:"ports"`
	Port int            `json:"port" jsonschema:"minimum=1,maximum=65535"` // port of the server on this machine
}

// A portURL is the URL of a registered port.
type portURL struct {
	URL string `json:"url"`
}

// RegisterPort returns a URL of an HTTP server that a command of this shell has started. It waits until the
// server listens. Other services of this machine are not forwarded.
func (p *ports) RegisterPort(ctx context.Context, in registerPortIn) (portURL, error) {
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	target, err := process.AwaitLoopback(waiting, in.Port)
	if err != nil {
		return portURL{}, fmt.Errorf("nothing listens at port %d: start the server with run_background", in.Port)
	}
	if !p.mayForward(in.Port, target) {
		return portURL{}, fmt.Errorf("port %d belongs to a service that no command of this shell has started: start a server with run_background, at another port", in.Port)
	}
	if p.template != "" {
		return portURL{publicURL(p.template, in.Port)}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return portURL{}, process.ErrClosed
	}
	if web := p.ports[in.Port]; web != nil {
		return portURL{"http://" + web.Addr + "/"}, nil
	}
	if len(p.ports) >= p.limit {
		p.removeClosed()
	}
	if len(p.ports) >= p.limit {
		return portURL{}, fmt.Errorf("%d ports are registered already", p.limit)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return portURL{}, err
	}
	web := httptransport.NewServer(p.forward(in.Port, target))
	web.Addr = listener.Addr().String()
	if p.ports == nil {
		p.ports = make(map[int]*http.Server)
	}
	p.ports[in.Port] = web
	p.group.Go(func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.logger.Error("a registered port is not served any more", "port", in.Port, "error", err)
		}
	})
	return portURL{"http://" + web.Addr + "/"}, nil
}

// mayForward reports whether a port is one that the operator has allowed, or that a command listens at.
func (p *ports) mayForward(port int, address string) bool {
	return slices.Contains(p.allowed, port) || p.owns(address)
}

// portVariable is the variable of [Options].PortURL.
const portVariable = "{port}"

// publicURL returns the URL of a port.
func publicURL(template string, port int) string {
	return strings.Replace(template, portVariable, strconv.Itoa(port), 1)
}

// checkTemplate validates [Options].PortURL.
func checkTemplate(template string) error {
	text := publicURL(template, 1)
	u, err := url.Parse(text)
	if err != nil || text == template || strings.ContainsAny(text, "{}") ||
		u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return fmt.Errorf("shell: Options.PortURL %.256q: expected an http or https URL with one %s, such as https://%s-host.example", template, portVariable, portVariable)
	}
	return nil
}

// removeClosed removes ports whose server no longer listens.
func (p *ports) removeClosed() {
	for port, web := range p.ports {
		if _, ok := process.Loopback(port); !ok {
			_ = web.Close() // the error has no effect
			delete(p.ports, port)
		}
	}
}

// forward returns a reverse proxy to an address of this machine. It refuses foreign host
// names, which protects against DNS rebinding. It forwards WebSockets and no other upgrade:
// after one to HTTP/2, requests would pass that nothing here checks.
func (p *ports) forward(port int, address string) http.Handler {
	target := &url.URL{Scheme: "http", Host: address}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		if !p.mayForward(port, address) { // the command has ended, and another service may listen now
			return nil, fmt.Errorf("no command listens at port %d", port)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	// Without idle connections, each request checks who listens, and nothing is left to close.
	client := httptransport.NewClient(func(t *http.Transport) {
		t.Proxy, t.DialContext, t.DisableKeepAlives = nil, dial, true
	})
	proxy := &httputil.ReverseProxy{Transport: client.Transport, ErrorLog: slog.NewLogLogger(p.logger.Handler(), slog.LevelInfo), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		if !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") {
			r.Out.Header.Del("Upgrade")
			r.Out.Header.Del("Connection")
		}
	}}
	running := make(chan struct{}, maxForwarded)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil || host != "127.0.0.1" && host != "localhost" {
			http.Error(w, "expected a request for this machine", http.StatusForbidden)
			return
		}
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
			proxy.ServeHTTP(w, r)
		default:
			http.Error(w, "too many requests at the same time", http.StatusServiceUnavailable)
		}
	})
}

func (p *ports) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, web := range p.ports {
		errs = append(errs, web.Close())
	}
	p.group.Wait()
	return errors.Join(errs...)
}
