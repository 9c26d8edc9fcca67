package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// dovetailReplicas starts w.Replicas servers, each in a process of its own, and a balancer that
// sends each request to the next of them. url is the URL of the balancer. Several replicas have a
// store, which is in this process; one is as it would be without the others.
func dovetailReplicas(ctx context.Context, w Work, closing *closers) (url string, err error) {
	if w.Replicas > 1 {
		if w.Store, err = serveStore(closing); err != nil {
			return "", err
		}
	}
	upstream := &http.Transport{MaxIdleConnsPerHost: max(w.InFlight, 2)}
	closing.add(func() error { upstream.CloseIdleConnections(); return nil })
	var proxies []http.Handler
	for range w.Replicas {
		replica, err := startIdler(ctx, dovetail{}.Name(), w)
		if err != nil {
			return "", err
		}
		closing.add(replica.stop)
		proxy, err := forward(replica.url, upstream)
		if err != nil {
			return "", err
		}
		proxies = append(proxies, proxy)
	}
	var next atomic.Uint64
	balancer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[next.Add(1)%uint64(len(proxies))].ServeHTTP(w, r)
	})
	return closing.serve(balancer, func() error { return nil })
}

// forward forwards requests to a server, and events as they come.
func forward(to string, upstream http.RoundTripper) (http.Handler, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Transport:     upstream,
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}, nil
}

// serveStore starts a store for the processes of this machine. url contains its token.
func serveStore(closing *closers) (url string, err error) {
	dir, err := os.MkdirTemp("", "bench-store")
	if err != nil {
		return "", err
	}
	closing.add(func() error { return os.RemoveAll(dir) })
	token := rand.Text()
	shared, err := nats.Embedded(dir, &nats.Options{Listen: "127.0.0.1:0", Token: token})
	if err != nil {
		return "", err
	}
	closing.add(shared.Close)
	before, after, found := strings.Cut(shared.URL(), "://")
	if !found {
		return "", errors.New("the store has the URL " + shared.URL())
	}
	return before + "://" + token + "@" + after, nil
}
