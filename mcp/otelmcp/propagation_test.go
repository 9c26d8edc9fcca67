package otelmcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/mcp/otelmcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A probe is a server that remembers what its tool gets.
type probe struct {
	mu      sync.Mutex
	meta    mcp.Meta // of the last call
	baggage string   // in the context of the last call
}

func (p *probe) server(opts *server.Options) *server.Server {
	s := server.New(mcp.Implementation{Name: "probe", Version: "1"}, opts)
	server.AddTool(s, server.Tool{Name: "look"}, func(ctx context.Context, r *server.Request, _ struct{ Text string }) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.meta = mcp.Meta(r.Call().Member("_meta"))
		p.baggage = baggage.FromContext(ctx).String()
		return "seen", nil
	})
	return s
}

var lookIn = map[string]string{"Text": `"_meta":{"traceparent":"00-00000000000000000000000000000001-0000000000000001-01"}`}

// eachPair runs a test for both eras on both sides of a bridge.
func eachPair(t *testing.T, run func(t *testing.T, caller, upstream client.Era)) {
	for _, caller := range []client.Era{client.Modern, client.Legacy} {
		for _, upstream := range []client.Era{client.Modern, client.Legacy} {
			t.Run(caller.String()+" to "+upstream.String(), func(t *testing.T) { run(t, caller, upstream) })
		}
	}
}

// bridged connects a client through a bridge to a server. Any collector may be nil.
func bridged(t *testing.T, p *probe, caller, upstream client.Era, calling, bridging, serving *collector) *client.Session {
	behind, frontend, opts := &server.Options{}, &server.Options{}, &client.Options{}
	config := bridge.Config{Alias: "far", Required: true, ProxyOptions: bridge.ProxyOptions{Era: upstream}}
	if serving != nil {
		serving.observe(behind)
	}
	if bridging != nil {
		bridging.observe(frontend)
		telemetry := otelmcp.NewClient(&bridging.options)
		config.Middleware, config.OnSession = []mcp.Middleware{telemetry.Middleware}, telemetry.OnSession
	}
	if calling != nil {
		calling.observeClient(opts)
	}
	config.Dialer = transport.Pipe(p.server(behind))
	b, err := bridge.New(&bridge.Options{Logger: slog.New(slog.DiscardHandler)}, config)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "bridge", Version: "1"}, frontend)
	if err := s.Mount(b, nil); err != nil {
		t.Fatal(err)
	}
	return servertest.Connect(t, s, &servertest.Options{Mode: servertest.Mode{Era: caller}, Client: *opts})
}

// TestOneTrace checks the parents of all spans of a call through a bridge.
func TestOneTrace(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		calling, bridging, serving := newCollector(), newCollector(), newCollector()
		var p probe
		session := bridged(t, &p, caller, upstream, calling, bridging, serving)
		member, err := baggage.NewMemberRaw("user", "an n")
		if err != nil {
			t.Fatal(err)
		}
		carried, err := baggage.New(member)
		if err != nil {
			t.Fatal(err)
		}
		ctx, root := calling.options.TracerProvider.Tracer("test").Start(baggage.ContextWithBaggage(t.Context(), carried), "root")
		if _, err := session.CallTool(ctx, "far__look", lookIn, nil); err != nil {
			t.Fatal(err)
		}
		root.End()
		chain := []sdktrace.ReadOnlySpan{
			calling.one(t, trace.SpanKindInternal, "root"),
			calling.one(t, trace.SpanKindClient, "tools/call far__look"),
			bridging.one(t, trace.SpanKindServer, "tools/call far__look"),
			bridging.one(t, trace.SpanKindClient, "tools/call look"),
			serving.one(t, trace.SpanKindServer, "tools/call look"),
		}
		for i, span := range chain[1:] {
			if !isChild(span, chain[i]) {
				t.Errorf("%s is no child of %s: %v", span.Name(), chain[i].Name(), span.Parent())
			}
			if len(span.Links()) != 0 {
				t.Errorf("%s has links", span.Name())
			}
		}
		want := `"00-` + chain[3].SpanContext().TraceID().String() + "-" + chain[3].SpanContext().SpanID().String() + `-01"`
		if got := string(p.meta.Get("traceparent")); got != want {
			t.Errorf("the server gets the traceparent %s, want %s", got, want)
		}
		if p.baggage != "user=an%20n" {
			t.Errorf("the server gets the baggage %q", p.baggage)
		}
	})
}

// TestBridgeWithoutTelemetry checks that the trace passes a bridge that does not report, and one that
// reports its client only.
func TestBridgeWithoutTelemetry(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		calling, serving := newCollector(), newCollector()
		session := bridged(t, &probe{}, caller, upstream, calling, nil, serving)
		if _, err := session.CallTool(t.Context(), "far__look", lookIn, nil); err != nil {
			t.Fatal(err)
		}
		parent, child := calling.one(t, trace.SpanKindClient, "tools/call far__look"), serving.one(t, trace.SpanKindServer, "tools/call look")
		if !isChild(child, parent) {
			t.Errorf("%v is no child of %v", child.Parent(), parent.SpanContext())
		}
	})
}

// TestContextOfCaller checks that a context that the caller has put into _meta itself is the parent of
// the client's span, and that it is replaced as a whole.
func TestContextOfCaller(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		calling := newCollector()
		var p probe
		session := servertest.Connect(t, p.server(&server.Options{}), &servertest.Options{Mode: mode, Client: *calling.observeClient(&client.Options{})})
		const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		meta := mcp.Meta(`{"example.com/kept":1,"traceparent":"00-` + traceID + `-` + spanID + `-01","tracestate":"a=1"}`)
		if _, err := session.CallTool(t.Context(), "look", lookIn, &client.CallOptions{Meta: meta}); err != nil {
			t.Fatal(err)
		}
		span := calling.one(t, trace.SpanKindClient, "tools/call look")
		if span.Parent().TraceID().String() != traceID || span.Parent().SpanID().String() != spanID {
			t.Errorf("the parent is %v", span.Parent())
		}
		if parent := string(p.meta.Get("traceparent")); !strings.Contains(parent, span.SpanContext().SpanID().String()) ||
			string(p.meta.Get("tracestate")) != `"a=1"` || string(p.meta.Get("example.com/kept")) != "1" {
			t.Errorf("the server gets %s", p.meta)
		}

		ctx, root := calling.options.TracerProvider.Tracer("test").Start(t.Context(), "root")
		if _, err := session.CallTool(ctx, "look", lookIn, &client.CallOptions{Meta: meta}); err != nil {
			t.Fatal(err)
		}
		root.End()
		if spans := calling.named(trace.SpanKindClient, "tools/call look"); !isChild(spans[1], calling.one(t, trace.SpanKindInternal, "root")) {
			t.Error("the span is no child of the program's")
		}
		if p.meta.Get("tracestate") != nil {
			t.Errorf("the state of another trace is sent: %s", p.meta)
		}
	})
}

// TestMalformedContext checks that a context that cannot be read begins a new trace, and changes no
// answer.
func TestMalformedContext(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		serving := newCollector()
		var p probe
		session := servertest.Connect(t, p.server(serving.observe(&server.Options{})), &servertest.Options{Mode: mode})
		values := []string{`"00-xyz"`, `1`, `null`, `{"a":1}`, `""`, `"00-00000000000000000000000000000000-b7ad6b7169203331-01"`, `"\ud83d"`}
		for _, value := range values {
			meta := mcp.Meta(`{"traceparent":` + value + `,"tracestate":` + value + `,"baggage":` + value + `}`)
			if _, err := session.CallTool(t.Context(), "look", lookIn, &client.CallOptions{Meta: meta}); err != nil {
				t.Errorf("%s: %v", value, err)
			}
		}
		spans := serving.named(trace.SpanKindServer, "tools/call look")
		if len(spans) != len(values) {
			t.Errorf("%d spans", len(spans))
		}
		for _, span := range spans {
			if span.Parent().IsValid() {
				t.Errorf("the parent is %v", span.Parent())
			}
		}
	})
}

// TestHTTPContext checks the parents together with spans of HTTP: the context in _meta precedes that
// of the HTTP request, which is linked, and which is the parent if _meta has none.
func TestHTTPContext(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for _, inMeta := range []bool{true, false} {
			name := era.String()
			if inMeta {
				name += " with _meta"
			}
			t.Run(name, func(t *testing.T) {
				c := newCollector()
				endpoint := streamable.Handler((&probe{}).server(c.observe(&server.Options{})), nil)
				httpOptions := []otelhttp.Option{otelhttp.WithTracerProvider(c.options.TracerProvider), otelhttp.WithPropagators(w3c)}
				web := httptest.NewServer(otelhttp.NewHandler(endpoint, "", httpOptions...))
				defer web.Close()
				defer endpoint.Close()
				opts := &client.Options{Era: era}
				if inMeta {
					c.observeClient(opts)
				}
				network := &http.Transport{}
				defer network.CloseIdleConnections()
				httpClient := &http.Client{Transport: otelhttp.NewTransport(network, append(httpOptions, otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return "http client" }))...)}
				session, err := client.Connect(t.Context(), streamable.Dial(web.URL, &streamable.DialOptions{HTTPClient: httpClient}), opts)
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				ctx, root := c.options.TracerProvider.Tracer("test").Start(t.Context(), "root")
				if _, err := session.CallTool(ctx, "look", lookIn, nil); err != nil {
					t.Fatal(err)
				}
				root.End()

				handled := c.one(t, trace.SpanKindServer, "tools/call look")
				traceID := handled.SpanContext().TraceID()
				if traceID != root.SpanContext().TraceID() {
					t.Fatal("there are two traces")
				}
				byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
				for _, span := range c.spans.Ended() {
					byID[span.SpanContext().SpanID()] = span
				}
				for _, span := range c.spans.Started() { // the span of the HTTP request may not have ended
					if _, ok := byID[span.SpanContext().SpanID()]; !ok {
						byID[span.SpanContext().SpanID()] = span
					}
				}
				var way []string
				for span := handled; span != nil; span = byID[span.Parent().SpanID()] {
					way = append(way, span.Name())
				}
				want := "tools/call look < POST < http client < root"
				if inMeta {
					want = "tools/call look < tools/call look < root"
					if len(handled.Links()) != 1 || byID[handled.Links()[0].SpanContext.SpanID()].Name() != "POST" {
						t.Errorf("the links are %v", handled.Links())
					}
				}
				if got := strings.Join(way, " < "); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
}

// TestMountedServer checks that the span of a mounted server is a child of the span of the outer server.
func TestMountedServer(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		c := newCollector()
		inner := (&probe{}).server(c.observe(&server.Options{}))
		outer := server.New(mcp.Implementation{Name: "outer", Version: "1"}, c.observe(&server.Options{}))
		if err := outer.Mount(inner.Provider(), &server.MountOptions{Prefix: "in_"}); err != nil {
			t.Fatal(err)
		}
		session := servertest.Connect(t, outer, &servertest.Options{Mode: mode, Client: *c.observeClient(&client.Options{})})
		if _, err := session.CallTool(t.Context(), "in_look", lookIn, nil); err != nil {
			t.Fatal(err)
		}
		calling, handled := c.one(t, trace.SpanKindClient, "tools/call in_look"), c.one(t, trace.SpanKindServer, "tools/call in_look")
		if innermost := c.one(t, trace.SpanKindServer, "tools/call look"); !isChild(handled, calling) || !isChild(innermost, handled) {
			t.Error("the spans are no chain")
		}
	})
}

// FuzzContext checks that no _meta makes a telemetry change a call, except its context.
func FuzzContext(f *testing.F) {
	f.Add(`{}`)
	f.Add(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1","baggage":"b=2"}`)
	f.Add(`{"\u0074raceparent":1,"other":[1.0,"\ud83d"]}`)
	f.Add(`[]`)
	serving, calling := otelmcp.NewServer(&newCollector().options), otelmcp.NewClient(&newCollector().options)
	f.Fuzz(func(t *testing.T, meta string) {
		if !json.Valid([]byte(meta)) {
			return
		}
		call, ok := newCall(`{"name":"look","arguments":{"a" : 1.0},"_meta":` + meta + `}`)
		if !ok {
			return
		}
		handler := func(_ context.Context, passed *mcp.Call) (mcp.Result, error) {
			if string(passed.Member("arguments")) != `{"a" : 1.0}` || string(passed.Member("name")) != `"look"` {
				t.Errorf("the params became %s", passed.Params())
			}
			for key := range call.Keys("_meta") {
				var name string
				if err := json.Unmarshal(key, &name); err != nil {
					continue
				}
				switch name {
				case "traceparent", "tracestate", "baggage":
					continue
				}
				if was, is := call.Member("_meta", name), passed.Member("_meta", name); string(was) != string(is) {
					t.Errorf("_meta %s was %s and is %s", key, was, is)
				}
			}
			return mcp.Raw(`{}`), nil
		}
		for _, telemetry := range []*otelmcp.Telemetry{serving, calling} {
			if _, err := telemetry.Middleware(handler)(t.Context(), call); err != nil {
				t.Error(err)
			}
		}
	})
}
