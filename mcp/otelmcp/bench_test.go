package otelmcp_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/mcp/otelmcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

var w3c = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// providers are the telemetries that the benchmarks compare. None of them exports anything: "noop" is
// the telemetry of a program without the SDK, "unsampled" is the SDK for calls that are not sampled, and
// "recorded" records all spans and measurements.
var providers = map[string]func() *otelmcp.Options{
	"absent": func() *otelmcp.Options { return nil },
	"noop": func() *otelmcp.Options {
		return &otelmcp.Options{TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(), Propagator: w3c}
	},
	"unsampled": func() *otelmcp.Options {
		return &otelmcp.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
			MeterProvider: sdkmetric.NewMeterProvider(), Propagator: w3c}
	},
	"recorded": func() *otelmcp.Options {
		return &otelmcp.Options{TracerProvider: sdktrace.NewTracerProvider(),
			MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), Propagator: w3c}
	},
}

// BenchmarkCall makes calls with a telemetry on one side or both, and without one.
func BenchmarkCall(b *testing.B) {
	for _, over := range []string{"pipe", "http"} {
		for _, size := range []string{"small", "1MB"} {
			for _, name := range []string{"absent", "noop", "unsampled", "recorded"} {
				for _, side := range []string{"server", "client", "both"} {
					if name != "absent" || side == "both" {
						b.Run(over+"/"+size+"/"+side+" "+name, func(b *testing.B) { benchmarkCall(b, over, size, side, providers[name]()) })
					}
				}
			}
		}
	}
}

func benchmarkCall(b *testing.B, over, size, side string, opts *otelmcp.Options) {
	serverOptions, clientOptions := &server.Options{}, &client.Options{Era: client.Modern}
	if opts != nil && side != "client" {
		serverOptions.Middleware = []mcp.Middleware{otelmcp.NewServer(opts).Middleware}
	}
	if opts != nil && side != "server" {
		clientOptions.Middleware = []mcp.Middleware{otelmcp.NewClient(opts).Middleware}
	}
	s := server.New(mcp.Implementation{Name: "bench", Version: "1"}, serverOptions)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in struct{ Text string }) (string, error) {
		return in.Text, nil
	})
	dialer := transport.Pipe(s)
	if over == "http" {
		endpoint := streamable.Handler(s, nil)
		web := httptest.NewServer(endpoint)
		b.Cleanup(func() { endpoint.Close(); web.Close() })
		dialer = streamable.Dial(web.URL, nil)
	}
	session, err := client.Connect(b.Context(), dialer, clientOptions)
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	text := "x"
	if size == "1MB" {
		text = strings.Repeat("x", 1<<20)
	}
	arguments := map[string]string{"Text": text}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := session.CallTool(b.Context(), "echo", arguments, nil); err != nil {
			b.Fatal(err)
		}
	}
}
