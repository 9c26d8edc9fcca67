package main

import (
	"context"
	"errors"
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
	meters  *sdkmetric.MeterProvider
	close   func(context.Context) error // sends the last spans
}

// serverKey is the attribute with the alias of a server.
const serverKey = attribute.Key("dovetail.server")

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
	t := &telemetry{
		metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		meters:  sdkmetric.NewMeterProvider(sdkmetric.WithResource(program), sdkmetric.WithReader(reader)),
		close:   func(context.Context) error { return nil },
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
		MeterProvider:  t.meters,
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

// observeStates reports whether each server is ready, and how often it was started again.
func (t *telemetry) observeStates(states func() []bridge.State) error {
	meter := t.meters.Meter("github.com/dovetail-go/dovetail/bridge/cmd/dovetail")
	ready, noReady := meter.Int64ObservableGauge("dovetail.server.ready", metric.WithDescription("1 if the server is ready, 0 otherwise."))
	restarts, noRestarts := meter.Int64ObservableCounter("dovetail.server.restarts", metric.WithDescription("How often the server was started again."))
	if err := errors.Join(noReady, noRestarts); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range states() {
			alias := metric.WithAttributes(serverKey.String(s.Alias))
			var is int64
			if s.Status == "ready" {
				is = 1
			}
			o.ObserveInt64(ready, is, alias)
			o.ObserveInt64(restarts, int64(s.Restarts), alias)
		}
		return nil
	}, ready, restarts)
	return err
}
