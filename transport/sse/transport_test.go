package sse_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

func TestTransport(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		url, _ := serve(t, server, nil)
		return sse.Dial(url, nil)
	})
}

func TestTransportOverHTTP2(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, server transport.Binder) transport.Dialer {
		endpoint := sse.Handler(server, &sse.Options{Messages: "/messages"})
		mux := http.NewServeMux()
		mux.Handle("/sse", endpoint)
		mux.Handle("/messages", endpoint)
		s := httptest.NewUnstartedServer(mux)
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(func() {
			if err := endpoint.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			s.Close()
		})
		return sse.Dial(s.URL+"/sse", &sse.DialOptions{HTTPClient: s.Client()})
	})
}

// A server that restarts has lost its sessions; the dialer opens new ones.
func TestServerRestart(t *testing.T) {
	first := sse.Handler(transporttest.Server(), nil)
	s := httptest.NewServer(first)
	address := s.Listener.Addr().String()
	dialer := sse.Dial(s.URL, nil)
	notes := make(noted, 1)
	conn := dial(t, dialer, notes)
	waiting := make(chan error, 1)
	go func() {
		_, err := conn.Call(t.Context(), "wait", nil)
		waiting <- err
	}()
	await(t, notes, "the call to have begun")
	s.CloseClientConnections()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	s.Close()
	await(t, conn.Done(), "the end of the connection")
	failed(t, await(t, waiting, "the call"), maybeExecuted, errClosed)
	_, err := conn.Call(t.Context(), "echo", raw1)
	failed(t, err, notSent, errClosed)

	if _, err := dialer.Dial(t.Context(), silent{}); !isNotReached(err) {
		t.Errorf("Dial while there is no server: %v", err)
	}

	second := sse.Handler(transporttest.Server(), nil)
	again := httptest.NewUnstartedServer(second)
	again.Listener.Close()
	again.Listener = listen(t, address)
	again.Start()
	defer again.Close()
	defer second.Close()
	conn = dial(t, dialer, silent{})
	if _, err := conn.Call(context.Background(), "echo", raw1); err != nil {
		t.Error(err)
	}
	closed(t, conn)
}
