package otelmcp_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/mcp/otelmcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type addIn struct{ A, B int }

func add(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil }

func ExampleNewServer() {
	spans := tracetest.NewSpanRecorder() // instead of an exporter
	telemetry := otelmcp.NewServer(&otelmcp.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		Attributes:     []attribute.KeyValue{attribute.String("network.transport", "pipe")},
	})
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{telemetry.Middleware},
		OnSession:  telemetry.OnSession,
	})
	server.AddTool(s, server.Tool{Name: "add"}, add)

	session, err := client.Connect(context.Background(), transport.Pipe(s), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	if _, err := session.CallTool(context.Background(), "add", addIn{2, 3}, nil); err != nil {
		fmt.Println(err)
	}
	for _, span := range spans.Ended() {
		fmt.Println(span.SpanKind(), span.Name(), span.Attributes()[0].Value.AsString())
	}
	// Output: server tools/call add pipe
}

func ExampleNewClient() {
	spans := tracetest.NewSpanRecorder()
	opts := &otelmcp.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		Propagator:     propagation.TraceContext{},
	}
	serving, calling := otelmcp.NewServer(opts), otelmcp.NewClient(opts)
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, &server.Options{Middleware: []mcp.Middleware{serving.Middleware}})
	server.AddTool(s, server.Tool{Name: "add"}, add)

	session, err := client.Connect(context.Background(), transport.Pipe(s), &client.Options{
		Middleware: []mcp.Middleware{calling.Middleware},
		OnSession:  calling.OnSession,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	if _, err := session.CallTool(context.Background(), "add", addIn{2, 3}, nil); err != nil {
		fmt.Println(err)
	}
	var parent trace.SpanContext
	for _, span := range spans.Ended() {
		if span.SpanKind() == trace.SpanKindServer {
			parent = span.Parent()
			continue
		}
		fmt.Println(span.Name(), "is the parent:", span.SpanContext().SpanID() == parent.SpanID())
	}
	// Output: tools/call add is the parent: true
}
