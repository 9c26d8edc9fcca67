package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A site is the library on an address of its own.
type site struct {
	url      string
	endpoint *streamable.Endpoint
	web      *http.Server
	ended    chan struct{} // closed when it does not serve any more
	err      error         // why, once it has ended
}

// serve serves the library to those who have a token of the issuer.
func serve(address, issuer string) (*site, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := newServer()
	l := &site{url: "http://" + socket.Addr().String() + "/mcp", endpoint: streamable.Handler(s, nil), ended: make(chan struct{})}
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, AllowLoopback: true})
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	protected, err := oauth.Protect(l.endpoint, &oauth.ProtectOptions{
		Resource:             l.url,
		AuthorizationServers: []string{issuer},
		Verifier:             verifier,
		Scopes:               []string{"library"}, // which everyone needs
		CallScopes:           s.Scopes,            // and what the tools declare
	})
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	l.web = &http.Server{Handler: protected, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() {
		defer close(l.ended)
		if err := l.web.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.err = err
		}
	}()
	return l, nil
}

// close lets requests finish for a second, and ends the site.
func (l *site) close() error {
	err := l.endpoint.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.web.Shutdown(ctx) != nil {
		l.web.Close()
	}
	<-l.ended
	return errors.Join(err, l.err)
}
