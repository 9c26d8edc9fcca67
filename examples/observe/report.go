package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/mcp/otelmcp"
)

// A service is one program that reports. Here, three share a process.
type service struct {
	name    string
	options otelmcp.Options
	metrics http.Handler // for Prometheus
}

// newService returns a service whose spans go to the collector, and whose metrics Prometheus can
// read. A real service has an exporter such as otlptracehttp in place of the collector.
func newService(name string, spans sdktrace.SpanExporter) (*service, error) {
	registry := prometheus.NewRegistry()
	reader, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo(), promexporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	self := resource.NewSchemaless(attribute.String("service.name", name))
	return &service{
		name: name,
		options: otelmcp.Options{
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithResource(self), sdktrace.WithSyncer(spans)),
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithResource(self), sdkmetric.WithReader(reader)),
			Propagator:     propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
			Attributes:     []attribute.KeyValue{attribute.String("network.transport", "tcp")},
		},
		metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}, nil
}

// tracer makes the spans of the service's own code.
func (s *service) tracer() trace.Tracer { return s.options.TracerProvider.Tracer(s.name) }

// print prints how many sessions and calls of tools there were. What Prometheus reads also has their
// durations.
func (s *service) print(out io.Writer) error {
	answer := httptest.NewRecorder()
	s.metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		return errors.New(answer.Body.String())
	}
	for line := range strings.Lines(answer.Body.String()) {
		name, labels, _ := strings.Cut(line, "{")
		if strings.HasSuffix(name, "_count") && (strings.Contains(name, "session") || strings.Contains(labels, "tools/call")) {
			fmt.Fprint(out, line)
		}
	}
	return nil
}

// A collector keeps spans and prints them as a tree.
type collector struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

var _ sdktrace.SpanExporter = (*collector)(nil)

// ExportSpans keeps the spans.
func (c *collector) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	return nil
}

// Shutdown does nothing.
func (*collector) Shutdown(context.Context) error { return nil }

// print prints the trace that begins with a span of a name.
func (c *collector) print(out io.Writer, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name() == name {
			c.printSpan(out, s, "")
		}
	}
}

func (c *collector) printSpan(out io.Writer, s sdktrace.ReadOnlySpan, indent string) {
	service, _ := s.Resource().Set().Value("service.name")
	fmt.Fprintf(out, "%-7s %s%v: %s%s\n", service.AsString(), indent, s.SpanKind(), s.Name(), failure(s))
	var children []sdktrace.ReadOnlySpan
	for _, other := range c.spans {
		if other.Parent().TraceID() == s.SpanContext().TraceID() && other.Parent().SpanID() == s.SpanContext().SpanID() {
			children = append(children, other)
		}
	}
	slices.SortFunc(children, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	for _, child := range children {
		c.printSpan(out, child, indent+"  ")
	}
}

// failure returns what has failed, "" for success.
func failure(s sdktrace.ReadOnlySpan) string {
	for _, a := range s.Attributes() {
		if a.Key == "error.type" {
			return " — " + a.Value.AsString()
		}
	}
	if text := s.Status().Description; text != "" {
		return " — " + text
	}
	return ""
}
