package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// dovetail is this module.
type dovetail struct{}

func (dovetail) Name() string { return "dovetail" }

func (dovetail) Serve(ctx context.Context, w Work) error {
	s, err := dovetailServer(w, new(server.Options))
	if err != nil {
		return err
	}
	return stdio.Serve(ctx, s, nil)
}

func (dovetail) Build(w Work) (any, error) { return dovetailServer(w, new(server.Options)) }

func (dovetail) Handler(w Work) (http.Handler, func() error, error) {
	if w.Transport != Streamable {
		return nil, nil, errAbsent
	}
	var (
		opts    server.Options
		closing closers
	)
	if w.Store != "" {
		shared, err := nats.Connect(context.Background(), w.Store, nil)
		if err != nil {
			return nil, nil, err
		}
		closing.add(shared.Close)
		opts.Store = shared
	}
	s, err := dovetailServer(w, &opts)
	if err != nil {
		return nil, nil, closing.after(err)
	}
	endpoint := dovetailEndpoint(s, w)
	closing.add(func() error { return s.Shutdown(context.Background()) })
	closing.add(endpoint.Close)
	return endpoint, closing.close, nil
}

// dovetailEndpoint has room for the sessions that idle.
func dovetailEndpoint(s transport.Binder, w Work) httptransport.Endpoint {
	return streamable.Handler(s, &streamable.Options{Limits: transport.Limits{Sessions: max(2*w.Sessions, transport.Limits{}.WithDefaults().Sessions)}})
}

func (dovetail) Open(ctx context.Context, w Work) (Rig, error) {
	if w.Transport == SSE && w.Era == Modern || w.Transport == Bytes && w.Kind != Call {
		return nil, errAbsent
	}
	s, err := dovetailServer(w, new(server.Options))
	if err != nil {
		return nil, err
	}
	if w.Transport == Bytes {
		return dovetailBytes(ctx, s, w)
	}
	var closing closers
	dialer, err := dovetailWay(ctx, s, w, &closing)
	if err != nil {
		return nil, closing.after(err)
	}
	do, err := dovetailClient(ctx, dialer, w, &closing)
	if err != nil {
		return nil, closing.after(err)
	}
	return newRig(do, closing...), nil
}

// dovetailWay is the way to s that w goes.
func dovetailWay(ctx context.Context, s transport.Binder, w Work, closing *closers) (transport.Dialer, error) {
	direct, err := dovetailDialer(ctx, s, w, closing)
	if err != nil || w.Way != Proxied && w.Way != Bridged {
		return direct, err
	}
	quiet := slog.New(slog.DiscardHandler)
	opts := bridge.ProxyOptions{Era: dovetailEra(w.Era), Logger: quiet}
	var behind server.Provider = bridge.Proxy(direct, &opts)
	if w.Way == Bridged {
		behind, err = bridge.New(&bridge.Options{Logger: quiet}, bridge.Config{Alias: alias, Dialer: direct, Required: true, ProxyOptions: opts})
		if err != nil {
			return nil, err
		}
	}
	face := server.New(mcp.Implementation{Name: "face", Version: "1"}, nil)
	if err := face.Mount(behind, nil); err != nil {
		return nil, err
	}
	if err := face.Start(ctx); err != nil {
		return nil, err
	}
	closing.add(func() error { return face.Shutdown(context.Background()) })
	return dovetailDialer(ctx, face, w, closing)
}

// dovetailDialer reaches s over the transport.
func dovetailDialer(ctx context.Context, s transport.Binder, w Work, closing *closers) (transport.Dialer, error) {
	switch w.Transport {
	case Pipe:
		return transport.Pipe(s), nil
	case Stdio:
		cmd, err := child(ctx, serveTask, dovetail{}.Name(), w)
		if err != nil {
			return nil, err
		}
		return stdio.Command(cmd.Path, cmd.Args[1:], &stdio.CommandOptions{Env: cmd.Env}), nil
	case Streamable:
		if w.Replicas > 0 {
			url, err := dovetailReplicas(ctx, w, closing)
			return streamable.Dial(url, nil), err
		}
		endpoint := dovetailEndpoint(s, w)
		url, err := closing.serve(endpoint, endpoint.Close)
		if err != nil {
			return nil, err
		}
		return streamable.Dial(url, nil), openSessions(ctx, url, w)
	case SSE:
		endpoint := sse.Handler(s, nil)
		url, err := closing.serve(endpoint, endpoint.Close)
		return sse.Dial(url, nil), err
	case WebSocket:
		endpoint := ws.Handler(s, nil)
		url, err := closing.serve(endpoint, endpoint.Close)
		return ws.Dial(url, nil), err
	}
	return nil, fmt.Errorf("transport %q: %w", w.Transport, errAbsent)
}

func dovetailEra(era Era) client.Era {
	if era == Modern {
		return client.Modern
	}
	return client.Legacy
}
