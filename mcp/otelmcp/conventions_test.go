package otelmcp_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/mcpconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// convention has the attributes that the conventions for MCP list for a span or histogram: the
// attributes of groups, spans and metrics in model/mcp of open-telemetry/semantic-conventions-genai. Values are
// whether the attribute is required.
type convention map[attribute.Key]bool

// with returns the convention with more attributes, which are not required.
func (c convention) with(keys ...attribute.Key) convention {
	more := maps.Clone(c)
	for _, key := range keys {
		more[key] = false
	}
	return more
}

// Keys of the package that the authors of the conventions generate from them.
var (
	network   = []attribute.Key{semconv.NetworkTransportKey, semconv.NetworkProtocolNameKey, semconv.NetworkProtocolVersionKey, semconv.JSONRPCProtocolVersionKey}
	address   = []attribute.Key{semconv.ServerAddressKey, semconv.ServerPortKey}
	operation = convention{semconv.McpMethodNameKey: true}.with(network...).with(semconv.GenAIToolNameKey, semconv.GenAIOperationNameKey,
		semconv.GenAIPromptNameKey, semconv.ErrorTypeKey, semconv.McpProtocolVersionKey, semconv.RPCResponseStatusCodeKey)
	session = convention{}.with(network...).with(semconv.McpProtocolVersionKey, semconv.ErrorTypeKey)
	span    = operation.with(semconv.McpSessionIDKey, semconv.McpResourceURIKey, semconv.JSONRPCRequestIDKey)
)

// conventions has the convention of each histogram and span, by name.
var conventions = map[string]convention{
	"mcp.client.operation.duration": operation.with(address...),
	"mcp.server.operation.duration": operation,
	"mcp.client.session.duration":   session.with(address...),
	"mcp.server.session.duration":   session,
	"client":                        span.with(address...),
	"server":                        span.with(semconv.ClientAddressKey, semconv.ClientPortKey),
}

func (c convention) check(t *testing.T, name string, attrs []attribute.KeyValue) {
	t.Helper()
	for _, a := range attrs {
		if _, ok := c[a.Key]; !ok {
			t.Errorf("%s has the attribute %s, which the conventions do not have", name, a.Key)
		}
	}
	for key, required := range c {
		if required && !slices.ContainsFunc(attrs, func(a attribute.KeyValue) bool { return a.Key == key }) {
			t.Errorf("%s lacks the attribute %s: %s", name, key, texts(attrs))
		}
	}
}

// TestConventions compares all that a server, its clients and their failures report with the
// conventions: the names, units, descriptions and buckets of the histograms, and the names of
// attributes, values and methods.
func TestConventions(t *testing.T) {
	c := newCollector(semconv.NetworkTransportPipe)
	calls := map[string]func(ctx context.Context, s *client.Session){
		"tools": func(ctx context.Context, s *client.Session) {
			for _, tool := range []string{"greet", "fails", "failed", "busy", "panics", "refused", "hidden", "none"} {
				_, _ = s.CallTool(ctx, tool, nil, nil)
			}
			for range s.Tools(ctx, nil) {
			}
		},
		"others": func(ctx context.Context, s *client.Session) {
			_, _ = s.GetPrompt(ctx, "letter", map[string]string{"Name": "Ann"}, nil)
			_, _ = s.ReadResource(ctx, "shop://price", nil)
			for range s.Prompts(ctx, nil) {
			}
			for range s.Resources(ctx, nil) {
			}
			for range s.Templates(ctx, nil) {
			}
		},
	}
	for name, call := range calls {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			t.Run(name+" "+era.String(), func(t *testing.T) {
				s := newShop(c.observe(&server.Options{}))
				call(t.Context(), servertest.Connect(t, s, &servertest.Options{Mode: servertest.Mode{Era: era}, Client: *c.observeClient(&client.Options{})}))
			})
		}
	}

	meter := noop.Meter{}
	clientOperation, _ := mcpconv.NewClientOperationDuration(meter)
	serverOperation, _ := mcpconv.NewServerOperationDuration(meter)
	clientSession, _ := mcpconv.NewClientSessionDuration(meter)
	serverSession, _ := mcpconv.NewServerSessionDuration(meter)
	wanted := map[string]interface {
		Name() string
		Unit() string
		Description() string
	}{}
	for _, m := range []interface {
		Name() string
		Unit() string
		Description() string
	}{clientOperation, serverOperation, clientSession, serverSession} {
		wanted[m.Name()] = m
	}
	var all metricdata.ResourceMetrics
	if err := c.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		want := wanted[m.Name]
		if want == nil || m.Unit != want.Unit() || m.Description != want.Description() {
			t.Errorf("the conventions have no histogram %q with the unit %q and the description %q", m.Name, m.Unit, m.Description)
			continue
		}
		delete(wanted, m.Name)
		for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			conventions[m.Name].check(t, m.Name, point.Attributes.ToSlice())
			if want := []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}; !slices.Equal(point.Bounds, want) {
				t.Errorf("the buckets of %s are %v", m.Name, point.Bounds)
			}
		}
	}
	for name := range wanted {
		t.Errorf("%s is not reported", name)
	}
	if got := all.ScopeMetrics[0].Scope.SchemaURL; got != semconv.SchemaURL {
		t.Errorf("the schema is %q", got)
	}

	seen := map[trace.SpanKind]bool{}
	for _, s := range c.spans.Ended() {
		seen[s.SpanKind()] = true
		conventions[s.SpanKind().String()].check(t, s.Name(), s.Attributes())
		for _, a := range s.Attributes() {
			if a.Key == semconv.GenAIOperationNameKey && a != semconv.GenAIOperationNameExecuteTool {
				t.Errorf("%s has %v", s.Name(), a)
			}
		}
		if s.InstrumentationScope().SchemaURL != semconv.SchemaURL {
			t.Errorf("the schema is %q", s.InstrumentationScope().SchemaURL)
		}
	}
	if !seen[trace.SpanKindClient] || !seen[trace.SpanKindServer] {
		t.Errorf("the kinds of spans are %v", seen)
	}
}

// TestMethodNames checks that a server reports the methods that the conventions list. The conventions
// have no tasks.
func TestMethodNames(t *testing.T) {
	for method, want := range map[string]attribute.KeyValue{
		mcp.MethodToolsCall:             semconv.McpMethodNameToolsCall,
		mcp.MethodToolsList:             semconv.McpMethodNameToolsList,
		mcp.MethodPromptsGet:            semconv.McpMethodNamePromptsGet,
		mcp.MethodPromptsList:           semconv.McpMethodNamePromptsList,
		mcp.MethodResourcesRead:         semconv.McpMethodNameResourcesRead,
		mcp.MethodResourcesList:         semconv.McpMethodNameResourcesList,
		mcp.MethodResourceTemplatesList: semconv.McpMethodNameResourcesTemplatesList,
		mcp.MethodComplete:              semconv.McpMethodNameCompletionComplete,
	} {
		if want.Value.AsString() != method {
			t.Errorf("%s is %v in the conventions", method, want.Value)
		}
	}
}
