package bridge_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestUpstreamErrorOnTheWire(t *testing.T) {
	secret := errors.New("exec: /home/ann/.secret/server: not found")
	for _, test := range []struct {
		err           bridge.UpstreamError
		message, data string
	}{
		{bridge.UpstreamError{Server: "a", Failure: bridge.Unavailable, Err: secret},
			`the server "a" is not available at the moment; the call was not executed`,
			`{"type":"UPSTREAM_UNAVAILABLE","server":"a","executed":"no"}`},
		{bridge.UpstreamError{Server: "a", Failure: bridge.Lost, Delivery: jsonrpc.MaybeExecuted, Err: secret},
			`the server "a" closed the connection before it answered; the call may have been executed`,
			`{"type":"UPSTREAM_LOST","server":"a","executed":"maybe"}`},
		{bridge.UpstreamError{Failure: bridge.TimedOut, Delivery: jsonrpc.MaybeExecuted, Err: secret},
			`the server did not answer in time; the call may have been executed`,
			`{"type":"UPSTREAM_TIMEOUT","executed":"maybe"}`},
		{bridge.UpstreamError{Failure: bridge.Busy, Delivery: jsonrpc.Rejected, Err: secret},
			`the server has too many calls to take another; the call was not executed`,
			`{"type":"UPSTREAM_BUSY","executed":"no"}`},
		{bridge.UpstreamError{Failure: bridge.Malformed, Delivery: jsonrpc.MaybeExecuted, Err: secret},
			`the server gave an answer that cannot be understood; the call may have been executed`,
			`{"type":"UPSTREAM_MALFORMED","executed":"maybe"}`},
	} {
		var wire *jsonrpc.Error
		if !errors.As(&test.err, &wire) || wire.Code != jsonrpc.InternalError || wire.Message != test.message || string(wire.Data) != test.data {
			t.Errorf("%s is %+v on the wire", test.err.Failure, wire)
		}
		if !errors.Is(&test.err, secret) || !strings.Contains(test.err.Error(), "/home/ann") {
			t.Errorf("the cause is not logged: %v", &test.err)
		}
	}
}

// Errors of a server are forwarded, whatever their code.
func TestErrorsOfTheServer(t *testing.T) {
	for _, wire := range []jsonrpc.Error{
		{Code: jsonrpc.InvalidParams, Message: "no\nsuch \"tool\""},
		{Code: -32042, Message: "", Data: jsonRaw(`{"b":1,"a":[1e400,9007199254740993]}`)},
		{Code: 7, Message: "seven", Data: jsonRaw(`null`)},
		{Code: jsonrpc.InternalError, Message: "internal"},
	} {
		up := toolsOnly(client.Legacy, "t")
		list := up.answer
		up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			if req.Method == mcp.MethodToolsCall {
				return "", &wire
			}
			return list(ctx, from, req)
		}
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: pipeTo(up)})
		_, err := b.CallTool(t.Context(), "a__t", nil)
		if got, ok := err.(*jsonrpc.Error); !ok || got.Code != wire.Code || got.Message != wire.Message || string(got.Data) != string(wire.Data) {
			t.Errorf("%+v arrives as %+v", wire, err)
		}
	}
}

// A malformed answer ends its call immediately, with the reason, and the server stays usable.
func TestMalformedAnswers(t *testing.T) {
	for name, content := range map[string]string{
		"control character": "\x01",
		"unknown escape":    `\x`,
	} {
		for eraName, era := range eras {
			t.Run(name+", "+eraName, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := toolsOnly(era, "t")
					list, malformed := up.answer, true
					up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
						if req.Method == mcp.MethodToolsCall && malformed {
							malformed = false
							return `{"content":[{"type":"text","text":"` + content + `"}]}`, nil
						}
						return list(ctx, from, req)
					}
					b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: pipeTo(up)})
					wantDuration(t, 0, 0, func() {
						_, err := b.CallTool(t.Context(), "a__t", nil)
						wantFailure(t, err, bridge.Malformed, jsonrpc.MaybeExecuted)
						if _, ok := errors.AsType[*jsonrpc.DecodeError](err); !ok {
							t.Errorf("the error does not have the reason: %v", err)
						}
					})
					if result, err := b.CallTool(t.Context(), "a__t", nil); err != nil || result.Text() != "t" {
						t.Errorf("the next call returns %v, %v", result, err)
					}
				})
			})
		}
	}
}

// Failures of a server over HTTP have the same names.
func TestFailuresOverHTTP(t *testing.T) {
	up := echo(nil)
	endpoint := streamable.Handler(up, nil)
	var mode atomic.Value
	mode.Store("")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch mode.Load() {
		case "abort":
			if r.Header.Get("Mcp-Method") == "tools/call" {
				panic(http.ErrAbortHandler)
			}
		case "401":
			w.WriteHeader(http.StatusUnauthorized)
			return
		case "429":
			w.WriteHeader(http.StatusTooManyRequests)
			return
		case "502":
			w.WriteHeader(http.StatusBadGateway)
			return
		case "html":
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte("<html>"))
			return
		case "garbage":
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"jsonrpc":`))
			return
		case "cut":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte(`{"jsonrpc":`))
			return
		}
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(func() { endpoint.Close() })
	b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: streamable.Dial(web.URL, nil), ProxyOptions: bridge.ProxyOptions{PingInterval: -1}})
	for _, test := range []struct {
		mode     string
		failure  bridge.Failure
		delivery jsonrpc.Delivery
	}{
		{"abort", bridge.Lost, jsonrpc.MaybeExecuted},
		{"401", bridge.Unavailable, jsonrpc.Rejected},
		{"429", bridge.Unavailable, jsonrpc.Rejected},
		{"502", bridge.Lost, jsonrpc.MaybeExecuted},
		{"html", bridge.Malformed, jsonrpc.MaybeExecuted},
		{"garbage", bridge.Malformed, jsonrpc.MaybeExecuted},
		{"cut", bridge.Lost, jsonrpc.MaybeExecuted},
	} {
		mode.Store(test.mode)
		_, err := callEcho(t.Context(), b, "a__echo", "x")
		failed, ok := errors.AsType[*bridge.UpstreamError](err)
		if !ok || failed.Failure != test.failure || failed.Delivery != test.delivery {
			t.Errorf("%s: %v, want %s, %v", test.mode, err, test.failure, test.delivery)
		}
		mode.Store("")
		if text, err := callEcho(t.Context(), b, "a__echo", "x"); err != nil || text != "x" {
			t.Errorf("after %s it says %q, %v", test.mode, text, err)
		}
	}
	endpoint.Close()
	web.Close()
	var err error
	for range 10 { // some may get a connection that has not been found closed yet
		if _, err = callEcho(t.Context(), b, "a__echo", "x"); strings.Contains(err.Error(), jsonrpc.NotSent.String()) {
			break
		}
	}
	wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
}

// After a server over HTTP was unavailable, its lists are read and subscribed to again.
func TestServerOverHTTPIsBack(t *testing.T) {
	up := echo(nil)
	endpoint := streamable.Handler(up, nil)
	web := httptest.NewServer(endpoint)
	t.Cleanup(web.Close)
	t.Cleanup(func() { endpoint.Close() })
	received := make(chan mcp.Change, 100)
	p := bridge.Proxy(streamable.Dial(web.URL, nil), &bridge.ProxyOptions{Logger: quiet()})
	frontend := mount(t, p)
	session := connect(t, pipeTo(frontend), client.Options{OnChange: func(_ context.Context, change mcp.Change) { received <- change }})
	if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}); err != nil {
		t.Fatal(err)
	}
	web.CloseClientConnections()
	server.AddTool(up, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	select {
	case <-received:
	case <-time.After(10 * time.Second):
		t.Fatal("a change is not reported after the connections were lost")
	}
	if got := names(p.Catalog(), mcp.KindTool); got != "echo new" {
		t.Errorf("the tools are %q", got)
	}
}

// A call through something that is closed, or not started, was not sent.
func TestCallsThroughClosedThingsWereNotSent(t *testing.T) {
	var ran atomic.Int64
	behind := pipeTo(echo(&ran))
	arguments := jsonRaw(`{"Text":"x"}`)
	t.Run("a bridge", func(t *testing.T) {
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "a", Dialer: behind})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.CallTool(t.Context(), "a__echo", arguments)
		wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
		stop, err := b.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stop()
		_, err = b.CallTool(t.Context(), "a__echo", arguments)
		wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
	})
	t.Run("a session", func(t *testing.T) {
		session := connect(t, behind, client.Options{})
		session.Close()
		_, err := session.CallTool(t.Context(), "echo", arguments, nil)
		if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.NotSent {
			t.Errorf("the error is %v, want one that says not sent", err)
		}
		call := newCall(t, mcp.MethodToolsCall, `{"name":"echo","arguments":{"Text":"x"}}`)
		_, err = session.Forward(t.Context(), call, nil)
		if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.NotSent {
			t.Errorf("the error of a forwarded call is %v, want one that says not sent", err)
		}
	})
	t.Run("a relay", func(t *testing.T) {
		relay := bridge.Relay(behind, nil)
		session := connect(t, pipeTo(relay), client.Options{Era: client.Legacy})
		if err := relay.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := session.CallTool(t.Context(), "echo", arguments, nil)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(refused.Message, "was not executed") {
			t.Errorf("the error is %v, want one that says that the call was not executed", err)
		}
	})
	if n := ran.Load(); n != 0 {
		t.Errorf("%d calls were executed", n)
	}
}
