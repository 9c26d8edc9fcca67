package gateway_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestBudgets: what a face, and what stands around, cost beside what net/http and the provider
// do. Numbers are those of allocations.
func TestBudgets(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	s := newStub(`{"type":"object"}`, "x")
	ctx := context.Background()
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{"name":"s__x","arguments":{"a":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{}, nil)
	call.Resolve(&s.catalog.Lookup(mcp.KindTool, "s__x").Target, "", nil)
	audit := &gateway.Audit{Logger: quiet(), Counters: new(gateway.Metrics)}
	audited := audit.Intercept(func(context.Context, *mcp.Call) (mcp.Result, error) { return s.result, nil })
	proxy := s.gateway(t, gateway.Options{}).Proxy()
	for name, test := range map[string]struct {
		most float64
		run  func()
	}{
		"audit": {12, func() { audited(ctx, &call) }},
		"proxy": {80, func() {
			s.called = s.called[:0]
			serve(proxy)
		}},
	} {
		if got := testing.AllocsPerRun(200, test.run); got > test.most {
			t.Errorf("%s takes %.0f allocations, and may take %.0f", name, got, test.most)
		} else {
			t.Logf("%s takes %.0f allocations", name, got)
		}
	}
}

func serve(handler http.Handler) {
	r := httptest.NewRequest(http.MethodPost, "/s/tools/x", strings.NewReader(`{"arguments":{"a":1}}`))
	r.Host = "localhost"
	r.Header["Content-Type"] = []string{"application/json"}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}))
	handler.ServeHTTP(httptest.NewRecorder(), r)
}

func BenchmarkProxy(b *testing.B) {
	s := newStub(`{"type":"object"}`, "x")
	proxy := s.gateway(b, gateway.Options{}).Proxy()
	b.ReportAllocs()
	for b.Loop() {
		s.called = s.called[:0]
		serve(proxy)
	}
}
