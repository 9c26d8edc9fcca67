package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// TestPinnedVersion checks that a session has the version of the options, over each transport.
func TestPinnedVersion(t *testing.T) {
	for _, version := range mcp.Versions() {
		if version.Modern() && !transporttests.CarriesModern() {
			continue
		}
		eras := []client.Era{client.Auto, client.Legacy}
		if version.Modern() {
			eras[1] = client.Modern
		}
		for _, era := range eras {
			session := connect(t, transporttests.Dialer(t, newServer(nil)), client.Options{Version: version, Era: era})
			if got := session.Version(); got != version {
				t.Errorf("%s, era %v: the version is %s", version, era, got)
			}
			if _, err := session.Call(t.Context(), mcp.MethodToolsList, nil, nil); err != nil && !isMethodNotFound(err) {
				t.Errorf("%s, era %v: a call fails: %v", version, era, err)
			}
		}
	}
	for name, opts := range map[string]client.Options{
		"unknown":         {Version: "2020-01-01"},
		"of the other":    {Version: mcp.LatestVersion, Era: client.Legacy},
		"of no handshake": {Version: mcp.LatestLegacyVersion, Era: client.Modern},
	} {
		session, err := client.Connect(t.Context(), transporttests.Dialer(t, newServer(nil)), &opts)
		if err == nil {
			session.Close()
			t.Errorf("%s: the version is accepted", name)
		}
	}
}

func isMethodNotFound(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code == jsonrpc.MethodNotFound
}

// TestHandshakeError checks which errors of Connect say that the server has answered.
func TestHandshakeError(t *testing.T) {
	legacyOnly := func(initialize string) script {
		return func(req *jsonrpc.Request) []string {
			switch req.Method {
			case mcp.MethodDiscover:
				return []string{failure(req, jsonrpc.MethodNotFound, "no such method")}
			case mcp.MethodInitialize:
				return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, req.ID, initialize)}
			}
			return nil
		}
	}
	modern := func(discover string) script {
		return func(req *jsonrpc.Request) []string {
			if req.Method == mcp.MethodDiscover {
				return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, req.ID, discover)}
			}
			return []string{failure(req, jsonrpc.MethodNotFound, "no such method")}
		}
	}
	const other = `"result":{"protocolVersion":"2024-11-05","serverInfo":{"name":"s","version":"1"},"capabilities":{}}`
	for name, test := range map[string]struct {
		dialer    transport.Dialer
		opts      client.Options
		supported []mcp.Version // nil: it is no *mcp.HandshakeError
		text      string
	}{
		"another version": {legacyOnly(other), client.Options{Version: mcp.Version20251125}, []mcp.Version{mcp.Version20241105}, "the server chose version 2024-11-05"},
		"an unknown version": {
			legacyOnly(strings.Replace(other, "2024-11-05", "2031-01-01", 1)), client.Options{}, []mcp.Version{"2031-01-01"}, "2031-01-01",
		},
		"refused with versions": {
			legacyOnly(`"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05","2025-03-26"]}}`),
			client.Options{Era: client.Legacy}, []mcp.Version{mcp.Version20241105, mcp.Version20250326}, "Unsupported protocol version",
		},
		"refused": {legacyOnly(`"error":{"code":-32000,"message":"closed on Sundays"}`), client.Options{}, []mcp.Version{}, "closed on Sundays"},
		"invalid": {legacyOnly(`"result":{"protocolVersion":7}`), client.Options{}, []mcp.Version{}, "initializing"},
		"modern with other versions": {
			modern(`"result":{"resultType":"complete","supportedVersions":["2031-01-01"],"capabilities":{}}`), client.Options{Era: client.Modern}, []mcp.Version{"2031-01-01"}, "2031-01-01",
		},
		"modern refused": {
			modern(`"error":{"code":-32022,"message":"unsupported","data":{"supported":["2031-01-01"],"requested":"2026-07-28"}}`), client.Options{}, []mcp.Version{"2031-01-01"}, "unsupported",
		},
		"ended": {script(func(*jsonrpc.Request) []string { return []string{hangUp} }), client.Options{}, nil, ""},
		"not reached": {dialFunc(func(context.Context, jsonrpc.Handler) (transport.Conn, error) {
			return nil, transport.ErrNotReached
		}), client.Options{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Connect(t.Context(), test.dialer, &test.opts)
			if err == nil {
				t.Fatal("the session is open")
			}
			handshake, ok := errors.AsType[*mcp.HandshakeError](err)
			if ok != (test.supported != nil) {
				t.Fatalf("the error is %v (%T)", err, err)
			}
			if ok && !slices.Equal(handshake.Supported, test.supported) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("the error is %v, with the versions %v; want %v", err, handshake.Supported, test.supported)
			}
		})
	}
}

type dialFunc func(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error)

func (f dialFunc) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	return f(ctx, handler)
}
