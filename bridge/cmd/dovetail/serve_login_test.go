package main

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

// An operator logs in at a server that demands it, and the server is connected, also if the server has refused the saved token.
func TestLoginInTheConsole(t *testing.T) {
	server, _ := newLoginServer(t, registered)
	t.Setenv("LOGIN_TEST_SECRET", "app-secret")
	path := configured(t, map[string]any{"url": server.resource, "oauth": map[string]any{"clientId": "app", "clientSecret": "${LOGIN_TEST_SECRET}"}})
	for _, when := range []string{"without a token", "with a saved token"} {
		log := &output{}
		h := &hub{opts: &serveOptions{config: path}, env: &environment{stderr: io.Discard}, logger: slog.New(slog.NewTextHandler(log, nil))}
		if err := h.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if when == "without a token" {
			waittest.Until(t, "the refusal", func() bool { return h.bridge.States()[0].Status == "failed" })
		}
		url, err := h.logIn(t.Context(), "guarded")
		if err != nil || !strings.Contains(url, "client_id=app") {
			t.Fatalf("%s the URL is %q, %v", when, url, err)
		}
		if again, err := h.logIn(t.Context(), "guarded"); err != nil || again != url {
			t.Errorf("a second request gets %q, %v", again, err)
		}
		if err := oauthtest.Browse(t.Context(), url); err != nil {
			t.Error(err)
		}
		log.await(t, "an operator has logged in")
		waittest.Until(t, "the server "+when, func() bool { s := h.bridge.States()[0]; return s.Status == "ready" && s.Tools > 0 })
		if _, err := h.logIn(t.Context(), "other"); err == nil {
			t.Error("a login at an unknown server has begun")
		}
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}
}
