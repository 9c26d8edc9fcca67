package main

import (
	"context"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/mcp/otelmcp"
)

// telemetry reports the calls of clients and the calls to servers to OpenTelemetry. It reports metrics for Prometheus
// and, if the environment has the endpoint of a collector, as traces over OTLP.
type telemetry struct {
	options otelmcp.Options
	server  *otelmcp.Telemetry
	metrics http.Handler
	meter   metric.Meter
	// operations has the durations of the operations of the store
	operations metric.Float64Histogram
	close      func(context.Context) error // sends the last spans
}

func newTelemetry(ctx context.Context) (*telemetry, error) {
	program, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "dovetail"), attribute.String("service.version", version())),
		resource.WithFromEnv()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	reader, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithResource(program), sdkmetric.WithReader(reader))
	t := &telemetry{
		metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		close:   func(context.Context) error { return nil },
	}
	if t.meter, t.operations, err = newMeter(meters); err != nil {
		return nil, err
	}
	var traces oteltrace.TracerProvider = noop.NewTracerProvider() // passes on the traces of clients
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" {
		exporter, err := otlptracehttp.New(ctx) // reads its options from the environment
		if err != nil {
			return nil, err
		}
		exported := sdktrace.NewTracerProvider(sdktrace.WithResource(program), sdktrace.WithBatcher(exporter))
		traces, t.close = exported, exported.Shutdown
	}
	t.options = otelmcp.Options{
		TracerProvider: traces,
		MeterProvider:  meters,
		Propagator:     propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
	t.server = otelmcp.NewServer(&t.options)
	return t, nil
}

// observeClient reports the calls and sessions of a bridge with one of its servers.
func (t *telemetry) observeClient(c *bridge.Config) {
	opts := t.options
	opts.Attributes = []attribute.KeyValue{serverKey.String(c.Alias)}
	client := otelmcp.NewClient(&opts)
	c.Middleware = append([]mcp.Middleware{client.Middleware}, c.Middleware...)
	c.OnSession = client.OnSession
}
