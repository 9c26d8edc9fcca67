package otelmcp_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/mcp/otelmcp"
	"github.com/dovetail-go/dovetail/server"
)

// A collector keeps what one program reports.
type collector struct {
	spans   *tracetest.SpanRecorder
	reader  *sdkmetric.ManualReader
	options otelmcp.Options
}

func newCollector(attrs ...attribute.KeyValue) *collector {
	c := &collector{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	c.options = otelmcp.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(c.spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(c.reader)),
		Propagator:     w3c,
		Attributes:     attrs,
	}
	return c
}

// observe adds a telemetry to the options of a server.
func (c *collector) observe(opts *server.Options) *server.Options {
	t := otelmcp.NewServer(&c.options)
	opts.Middleware, opts.OnSession = append([]mcp.Middleware{t.Middleware}, opts.Middleware...), t.OnSession
	opts.Logger = slog.New(slog.DiscardHandler)
	return opts
}

// observeClient adds a telemetry to the options of a client.
func (c *collector) observeClient(opts *client.Options) *client.Options {
	t := otelmcp.NewClient(&c.options)
	opts.Middleware, opts.OnSession = []mcp.Middleware{t.Middleware}, t.OnSession
	return opts
}

// named returns the ended spans of a kind with a name, in the order of their ends.
func (c *collector) named(kind trace.SpanKind, name string) (found []sdktrace.ReadOnlySpan) {
	for _, s := range c.spans.Ended() {
		if s.SpanKind() == kind && s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

// one returns the only span of a kind with a name.
func (c *collector) one(t testing.TB, kind trace.SpanKind, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	found := c.named(kind, name)
	if len(found) != 1 {
		var all []string
		for _, s := range c.spans.Ended() {
			all = append(all, fmt.Sprint(s.SpanKind(), " ", s.Name()))
		}
		t.Fatalf("%d spans are %v %q; all spans: %q", len(found), kind, name, all)
	}
	return found[0]
}

// points returns the measurements of a histogram: their attributes and numbers, sorted.
func (c *collector) points(t testing.TB, name string) (points []string) {
	t.Helper()
	for _, p := range c.histogram(t, name) {
		points = append(points, fmt.Sprintf("%s: %d", texts(p.Attributes.ToSlice()), p.Count))
	}
	slices.Sort(points)
	return points
}

func (c *collector) histogram(t testing.TB, name string) []metricdata.HistogramDataPoint[float64] {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := c.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == name {
				return m.Data.(metricdata.Histogram[float64]).DataPoints
			}
		}
	}
	return nil
}

// texts returns attributes as "key=value" in the order of their keys.
func texts(attrs []attribute.KeyValue) string {
	var all []string
	for _, a := range attrs {
		all = append(all, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// span returns a span as text: its status, message and attributes.
func text(s sdktrace.ReadOnlySpan) string {
	return strings.TrimSpace(fmt.Sprintf("%v %s %s", s.Status().Code, s.Status().Description, texts(s.Attributes())))
}

// isChild reports whether a span is a child of another one.
func isChild(child, parent sdktrace.ReadOnlySpan) bool {
	return child.Parent().TraceID() == parent.SpanContext().TraceID() && child.Parent().SpanID() == parent.SpanContext().SpanID() &&
		child.SpanContext().TraceID() == parent.SpanContext().TraceID()
}

// newCall returns a call of a tool, if the params are valid.
func newCall(params string) (*mcp.Call, bool) {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(params))
	if err != nil {
		return nil, false
	}
	call := mcp.NewCall(req, &mcp.Caller{Version: mcp.Version20260728}, nil)
	return &call, true
}
