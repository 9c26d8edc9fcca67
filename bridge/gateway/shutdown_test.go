package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
)

// Who is being served when a gateway shuts down is waited for, and nobody else is served.
func TestShutdownWaitsForRequests(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	ctx, leave := context.WithCancel(t.Context())
	served := make(chan error, 1)
	request := r.request(t, "POST", call("files", "slow"), `{}`).WithContext(ctx)
	go func() {
		res, err := http.DefaultClient.Do(request)
		if err == nil {
			err = res.Body.Close()
		}
		served <- err
	}()
	<-r.files.entered

	late, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := r.gateway.Shutdown(late); !errors.Is(err, context.Canceled) {
			t.Errorf("shut down with a call under way: %v", err)
		}
	}
	if got := r.post(t, call("files", "read"), `{}`); got.status != http.StatusServiceUnavailable {
		t.Errorf("a request after that: %d %s", got.status, got.body)
	}
	leave()
	<-r.files.left
	if err := r.gateway.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.gateway.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
