package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// An idleness measures the memory of a server for sessions, or streams, in which nothing happens.
type idleness struct {
	peer Peer
	work Work
}

func openIdle(p Peer, w Work) (meter, error) {
	_, end, err := p.Handler(w)
	if err != nil {
		return nil, err
	}
	return &idleness{p, w}, end()
}

func (i *idleness) Close() error { return nil }

func (i *idleness) measure(ctx context.Context, _ time.Duration) (_ Sample, err error) {
	server, err := startServer(ctx, i.peer, i.work)
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	clients := &idleClients{web: web, url: server.url, work: i.work}
	defer clients.close()
	if err := clients.open(ctx, 10); err != nil { // the first ones also cost what is made once
		return Sample{}, err
	}
	before, err := server.memory(len(clients.streams))
	if err != nil {
		return Sample{}, err
	}
	if err := clients.open(ctx, i.work.Sessions); err != nil {
		return Sample{}, err
	}
	after, err := server.memory(len(clients.streams))
	return Sample{Bytes: float64(after-before) / float64(i.work.Sessions)}, err
}

// idleClients open sessions and streams.
type idleClients struct {
	web     *http.Client
	url     string
	work    Work
	streams []io.Closer
}

func (c *idleClients) open(ctx context.Context, n int) error {
	defer c.web.CloseIdleConnections()
	for range n {
		id, err := openSession(ctx, c.web, c.url, c.work.Era)
		if err != nil {
			return err
		}
		if !c.work.Streams {
			continue
		}
		stream, err := openStream(ctx, c.web, c.url, id, c.work.Era)
		if err != nil {
			return err
		}
		c.streams = append(c.streams, stream)
	}
	return nil
}

func (c *idleClients) close() {
	for _, stream := range c.streams {
		stream.Close()
	}
	c.web.CloseIdleConnections()
}
