package otelmcp

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// extractedKey is the key of a context that has been read from _meta. A server that is mounted on
// another one must not read it again.
type extractedKey struct{}

// withParent returns a context with the parent of the span: that in _meta, or otherwise the ambient
// one. ambient is the span context to link, valid if it is not the parent.
func (t *Telemetry) withParent(ctx context.Context, call *mcp.Call) (_ context.Context, ambient trace.SpanContext) {
	if call.Member("_meta") == nil {
		return ctx, ambient
	}
	before := trace.SpanContextFromContext(ctx)
	if !t.isServer && before.IsValid() || ctx.Value(extractedKey{}) != nil {
		return ctx, ambient
	}
	extracted := t.propagator.Extract(ctx, metaReader{call})
	parent := trace.SpanContextFromContext(extracted)
	if parent.Equal(before) {
		return extracted, ambient // _meta has baggage at most
	}
	return context.WithValue(extracted, extractedKey{}, true), before
}

// inject returns the call with the context in its _meta. It replaces the context of another hop.
func (t *Telemetry) inject(ctx context.Context, call *mcp.Call) *mcp.Call {
	var fields metaWriter
	t.propagator.Inject(ctx, &fields)
	if len(fields) == 0 {
		return call
	}
	meta := mcp.Meta(call.Member("_meta"))
	if meta.IsZero() {
		meta = fields.object()
	} else {
		for _, name := range t.propagator.Fields() {
			if err := meta.Set(name, fields.value(name)); err != nil {
				return call // the server refuses this _meta
			}
		}
	}
	changed, err := call.WithMeta(meta)
	if err != nil {
		return call
	}
	return changed
}

// A metaReader reads from _meta of a call.
type metaReader struct{ call *mcp.Call }

var _ propagation.TextMapCarrier = metaReader{}

func (r metaReader) Get(key string) string {
	value := r.call.Member("_meta", key)
	if jsonscan.KindOf(value) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(value)
}

func (r metaReader) Keys() []string {
	var names []string
	for key := range r.call.Keys("_meta") {
		names = append(names, jsonscan.Unquote(key))
	}
	return names
}

func (metaReader) Set(string, string) {}

// A metaWriter collects members for _meta.
type metaWriter []metaField

type metaField struct{ name, value string }

var _ propagation.TextMapCarrier = (*metaWriter)(nil)

// Set replaces a member, since a carrier has one value of a key.
func (w *metaWriter) Set(name, value string) {
	for i, f := range *w {
		if f.name == name {
			(*w)[i].value = value
			return
		}
	}
	*w = append(*w, metaField{name, value})
}

func (w *metaWriter) Get(name string) string {
	for _, f := range *w {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

func (w *metaWriter) Keys() []string {
	var names []string
	for _, f := range *w {
		names = append(names, f.name)
	}
	return names
}

// value returns a member as JSON, or nil if there is none.
func (w *metaWriter) value(name string) json.RawMessage {
	if value := w.Get(name); value != "" {
		return jsonscan.AppendString(nil, value)
	}
	return nil
}

// object returns all members as a JSON object.
func (w *metaWriter) object() mcp.Meta {
	out := make([]byte, 0, 128)
	for i, f := range *w {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		out = jsonscan.AppendString(append(out, separator), f.name)
		out = jsonscan.AppendString(append(out, ':'), f.value)
	}
	return append(out, '}')
}
