package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// A balancer sends each request to the next replica, whichever session it belongs to. If that
// replica accepts no connection, it tries the others.
type balancer struct {
	proxy  httputil.ReverseProxy
	counts *ledger

	mu        sync.Mutex
	addresses []string // "" while a replica gets no requests
	next      int
}

var errNoReplica = errors.New("no replica accepts connections")

// clientHeader names the client of a request, so that the ledger knows which replica has got it.
const clientHeader = "X-Client"

// clientKey is the key of that name in the context of a request.
type clientKey struct{}

// serve serves a handler at a free port of this machine.
func serve(handler http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config = httptransport.NewServer(handler)
	s.Config.ReadHeaderTimeout = time.Minute // a replica may be stopped while it sends a header
	s.Start()
	return s
}

func newBalancer(replicas int, counts *ledger) *balancer {
	b := &balancer{counts: counts, addresses: make([]string, replicas)}
	b.proxy.Rewrite = func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", "replica" // b.dial chooses one
	}
	b.proxy.Transport = httptransport.NewClient(func(settings *http.Transport) {
		settings.Proxy, settings.DialContext, settings.DisableKeepAlives = nil, b.dial, true
	}).Transport
	b.proxy.FlushInterval = -1 // events are sent when they come
	b.proxy.ErrorHandler = refuse
	b.proxy.ErrorLog = log.New(io.Discard, "", 0) // clients disconnect, replicas are killed
	return b
}

// ServeHTTP reads a request and forwards it. The body is read first because net/http may close it when
// the response begins, and ReverseProxy would then end the response.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, r.Header.Get(clientHeader))))
}

// maxBody is the maximum length of a request in bytes.
const maxBody = 4 << 20

// refuse answers a request that has failed. Retry-After says that no replica has received it.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, errNoReplica) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	http.Error(w, err.Error(), http.StatusBadGateway)
}

func (b *balancer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var dialer net.Dialer
	client, _ := ctx.Value(clientKey{}).(string)
	began := time.Now()
	order, addresses := b.choose()
	for _, replica := range order {
		if addresses[replica] == "" {
			continue
		}
		if conn, err := dialer.DialContext(ctx, network, addresses[replica]); err == nil {
			b.counts.forward(client, work{replica, began})
			return conn, nil
		}
	}
	for _, replica := range order { // all of them are killed or stopped
		b.counts.forward(client, work{replica, began})
	}
	return nil, errNoReplica
}

// choose returns the replicas in the order in which they are tried, and their addresses.
func (b *balancer) choose() (order []int, addresses []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	for i := range b.addresses {
		order = append(order, (b.next+i)%len(b.addresses))
	}
	return order, slices.Clone(b.addresses)
}

// set sets the address of a replica. With "" the replica gets no more requests.
func (b *balancer) set(replica int, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addresses[replica] = address
}
