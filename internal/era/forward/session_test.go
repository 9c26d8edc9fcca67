package forward_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
)

// session connects a client to a host.
func session(t testing.TB, h *eratest.Host, opts *client.Options) *client.Session {
	t.Helper()
	s, err := client.Connect(t.Context(), h, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
