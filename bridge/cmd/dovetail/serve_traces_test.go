package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector in the environment gets the spans of a call, also those that are left when the program
// ends.
func TestServeExportsTraces(t *testing.T) {
	var mu sync.Mutex
	spans := make(map[string]*tracepb.Span) // by name
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var exported collectorpb.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &exported) != nil {
			http.Error(w, "expected spans", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, of := range exported.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					spans[span.GetName()] = span
				}
			}
		}
	}))
	defer web.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", web.URL)
	p := start(t)
	arguments := json.RawMessage(encoded(t, line{p.path("lines"), "one"}))
	if _, err := p.connect(t, nil).CallTool(t.Context(), "shelf__look", arguments, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	served, made := spans["tools/call shelf__look"], spans["tools/call look"]
	if served.GetKind() != tracepb.Span_SPAN_KIND_SERVER || made.GetKind() != tracepb.Span_SPAN_KIND_CLIENT ||
		!slices.Equal(made.GetParentSpanId(), served.GetSpanId()) || !slices.Equal(made.GetTraceId(), served.GetTraceId()) {
		t.Errorf("the collector has %v", spans)
	}
}
