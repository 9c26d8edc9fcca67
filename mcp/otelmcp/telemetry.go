package otelmcp

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/mcpconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/mcp"
)

// scope is the name of the instrumentation.
const scope = "github.com/dovetail-go/dovetail/mcp/otelmcp"

// Options configure a [Telemetry]. The zero value is valid.
type Options struct {
	// TracerProvider makes the spans. Default: otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// MeterProvider makes the histograms. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Propagator writes and reads the context in _meta. Default: otel.GetTextMapPropagator(), which
	// does nothing unless the program has called otel.SetTextMapPropagator.
	Propagator propagation.TextMapPropagator
	// Attributes are added to all spans and measurements. They are for what middleware cannot know,
	// such as network.transport and server.address. Default: none.
	Attributes []attribute.KeyValue
}

// A Telemetry reports calls and sessions. Make one with [NewServer] or [NewClient]. Its methods may
// be called concurrently.
type Telemetry struct {
	isServer   bool
	kind       []trace.SpanStartOption
	tracer     trace.Tracer
	operations metric.Float64Histogram
	sessions   metric.Float64Histogram
	propagator propagation.TextMapPropagator
	attributes []attribute.KeyValue
}

// NewServer returns the telemetry of servers, for server.Options. opts may be nil. An error of the
// MeterProvider goes to otel.Handle, and the histogram then records nothing.
func NewServer(opts *Options) *Telemetry {
	t, meter := newTelemetry(opts, trace.SpanKindServer)
	t.isServer = true
	operations, err := mcpconv.NewServerOperationDuration(meter, buckets())
	report(err)
	sessions, err := mcpconv.NewServerSessionDuration(meter, buckets())
	report(err)
	t.operations, t.sessions = operations.Inst(), sessions.Inst()
	return t
}

// NewClient returns the telemetry of clients, for client.Options and bridge.ProxyOptions. opts may be
// nil. An error of the MeterProvider goes to otel.Handle, and the histogram then records nothing.
func NewClient(opts *Options) *Telemetry {
	t, meter := newTelemetry(opts, trace.SpanKindClient)
	operations, err := mcpconv.NewClientOperationDuration(meter, buckets())
	report(err)
	sessions, err := mcpconv.NewClientSessionDuration(meter, buckets())
	report(err)
	t.operations, t.sessions = operations.Inst(), sessions.Inst()
	return t
}

func newTelemetry(opts *Options, kind trace.SpanKind) (*Telemetry, metric.Meter) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	return &Telemetry{
		kind:       []trace.SpanStartOption{trace.WithSpanKind(kind)},
		tracer:     o.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: o.Propagator,
		attributes: slices.Clone(o.Attributes),
	}, o.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
}

// buckets are the boundaries that the conventions recommend for all four histograms, in seconds.
func buckets() metric.Float64HistogramOption {
	return metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
}

func report(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// Middleware is a [mcp.Middleware] that reports calls. Put it first, so that it sees what other
// middleware refuses.
func (t *Telemetry) Middleware(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		o := operation{telemetry: t, call: call, begun: time.Now(), outcome: panicked}
		ctx, call = o.start(ctx)
		defer o.end(ctx)
		result, err := next(ctx, call)
		o.outcome = t.outcomeOf(call, result, err)
		return result, err
	}
}

// OnSession reports a session when it ends. It is for the option OnSession of servers, clients and
// bridges.
func (t *Telemetry) OnSession(_ context.Context, caller *mcp.Caller) (ended func(reason error)) {
	begun, version := time.Now(), caller.Version
	return func(reason error) {
		ctx := context.Background()
		if !t.sessions.Enabled(ctx) {
			return
		}
		attrs := append(slices.Clip(t.attributes), semconv.McpProtocolVersion(string(version)))
		if reason != nil {
			attrs = append(attrs, semconv.ErrorTypeKey.String(classOf(reason)))
		}
		t.sessions.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(attrs...))
	}
}

// An operation is a call that is being reported.
type operation struct {
	telemetry  *Telemetry
	call       *mcp.Call
	span       trace.Span
	begun      time.Time
	attributes []attribute.KeyValue // common to the span and the measurement; nil if none is recorded
	outcome    outcome
}

// start starts the span, which end ends. It returns the context and the call to pass on.
func (o *operation) start(ctx context.Context) (context.Context, *mcp.Call) {
	t := o.telemetry
	ctx, ambient := t.withParent(ctx, o.call)
	subject := t.subjectOf(o.call)
	method := t.methodOf(o.call)
	name := method
	if subject != "" {
		name += " " + subject
	}
	options := t.kind
	if ambient.IsValid() {
		options = append(slices.Clip(options), trace.WithLinks(trace.Link{SpanContext: ambient}))
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	o.span = span
	recording := o.span.IsRecording()
	if recording || t.operations.Enabled(ctx) {
		o.attributes = t.common(o.call, method, subject)
	}
	if recording {
		o.span.SetAttributes(o.attributes...)
		o.span.SetAttributes(t.ofSpan(o.call)...)
	}
	if t.isServer {
		return ctx, o.call
	}
	return ctx, t.inject(ctx, o.call)
}

// common returns the attributes of the span and the measurement.
func (t *Telemetry) common(call *mcp.Call, method, subject string) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, len(t.attributes)+6), t.attributes...) // with the two of an outcome
	attrs = append(attrs, semconv.McpMethodNameKey.String(method))
	if method == mcp.MethodToolsCall {
		attrs = append(attrs, semconv.GenAIOperationNameExecuteTool)
	}
	switch {
	case subject == "":
	case method == mcp.MethodToolsCall:
		attrs = append(attrs, semconv.GenAIToolName(subject))
	default:
		attrs = append(attrs, semconv.GenAIPromptName(subject))
	}
	if t.isServer || call.Target() == nil { // a forwarded call describes the caller of the bridge
		attrs = append(attrs, semconv.McpProtocolVersion(string(call.Caller.Version)))
	}
	return attrs
}

// ofSpan returns the attributes that only a span has.
func (t *Telemetry) ofSpan(call *mcp.Call) (attrs []attribute.KeyValue) {
	if call.Method() == mcp.MethodResourcesRead {
		if uri := mcp.Subject(call.Method(), call.Member); uri != "" {
			attrs = append(attrs, semconv.McpResourceURI(cut(uri, maxText)))
		}
	}
	if t.isServer {
		attrs = append(attrs, semconv.JSONRPCRequestID(cut(call.RequestID().String(), maxName)))
	}
	return attrs
}

// end ends the span and records the measurement.
func (o *operation) end(ctx context.Context) {
	took := time.Since(o.begun)
	if o.span.IsRecording() {
		o.span.SetAttributes(o.outcome.attributes(nil)...)
		if o.outcome.class != "" {
			o.span.SetStatus(codes.Error, o.outcome.message)
		}
	}
	o.span.End()
	if o.attributes != nil && o.telemetry.operations.Enabled(ctx) {
		attrs := o.outcome.attributes(o.attributes)
		o.telemetry.operations.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
	}
}

// methodOf returns the method as it is reported. Callers cannot create series by inventing methods.
func (t *Telemetry) methodOf(call *mcp.Call) string {
	method := call.Method()
	if !t.isServer {
		return cut(method, maxName)
	}
	switch method {
	case mcp.MethodToolsCall, mcp.MethodToolsList, mcp.MethodPromptsGet, mcp.MethodPromptsList,
		mcp.MethodResourcesRead, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodComplete,
		mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel,
		mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodDirectoryRead,
		mcp.MethodEventsList, mcp.MethodEventsPoll, mcp.MethodEventsStream, mcp.MethodEventsSubscribe, mcp.MethodEventsUnsubscribe:
		return method
	}
	return other
}

// subjectOf returns the name of the tool or prompt of a call, "" if there is none. On a server, only
// listed ones are named, so that callers cannot create series by inventing names.
func (t *Telemetry) subjectOf(call *mcp.Call) string {
	target := call.Target()
	if t.isServer {
		if target == nil || target.Definition == nil || target.Kind != mcp.KindTool && target.Kind != mcp.KindPrompt {
			return ""
		}
		return cut(target.Name, maxName)
	}
	switch call.Method() {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
	default:
		return ""
	}
	if target != nil && target.Origin.Name != "" {
		return cut(target.Origin.Name, maxName)
	}
	return cut(mcp.Subject(call.Method(), call.Member), maxName)
}
