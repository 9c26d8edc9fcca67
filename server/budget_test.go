package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// cost returns the allocations of one run of fn, after warming up pools and caches.
func cost(fn func()) (allocations, bytes float64) {
	const runs = 2000
	for range 200 {
		fn()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		fn()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs, float64(after.TotalAlloc-before.TotalAlloc) / runs
}

type echoOut echoIn

func wantCost(t *testing.T, what string, fn func(), maxAllocations, maxBytes float64) {
	t.Helper()
	racetest.Skip(t)
	allocations, bytes := cost(fn)
	t.Logf("%s: %.1f allocations, %.0f bytes", what, allocations, bytes)
	if allocations > maxAllocations || bytes > maxBytes {
		t.Errorf("%s: %.1f allocations and %.0f bytes, want at most %.1f and %.0f", what, allocations, bytes, maxAllocations, maxBytes)
	}
}

// TestCallBudget measures a typed tool with 100 bytes of arguments, from the bytes of the request
// to those of the reply.
func TestCallBudget(t *testing.T) {
	structured := newServer(nil)
	server.AddTool(structured, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (echoOut, error) {
		return echoOut(in), nil
	})
	for result, of := range map[string]struct {
		server         *server.Server
		maxAllocations float64
	}{"text": {newEcho(), 8.5}, "structured": {structured, 9.5}} {
		t.Run(result, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				d := newDispatcher(t, of.server, era, mcp.MethodToolsCall, echoParams)
				wantCost(t, "a call", func() { d.dispatch(t) }, of.maxAllocations, 800)
			})
		})
	}
}

// TestRoundTripBudget measures the same with a client that encodes and decodes.
func TestRoundTripBudget(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session, err := client.Connect(t.Context(), transport.Pipe(newEcho()), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		wantCost(t, "a round trip", func() {
			if _, err := session.CallTool(t.Context(), "echo", hundredBytes, nil); err != nil {
				t.Fatal(err)
			}
		}, 33.5, 3050)
	})
}

// TestRegistrationBudget measures the registration of a typed tool, with two schemas.
func TestRegistrationBudget(t *testing.T) {
	echo := func(_ context.Context, _ *server.Request, in echoIn) (echoOut, error) { return echoOut(in), nil }
	wantCost(t, "a typed tool", func() {
		if _, err := server.NewTool(server.Tool{Name: "echo"}, echo); err != nil {
			t.Fatal(err)
		}
	}, 204, 21<<10)
}

// TestListBudget checks that the cost of a list does not depend on its length.
func TestListBudget(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		d := newDispatcher(t, newPaged(500, 0), era, mcp.MethodToolsList, "")
		wantCost(t, "a list of 500", func() { d.dispatch(t) }, 8, 1<<10)
	})
}

type echoIn struct {
	Message string `json:"message" jsonschema_description:"the text"`
	N       int    `json:"n" jsonschema_description:"a number"`
}

// newEcho is a server with one typed tool that returns its arguments.
func newEcho() *server.Server {
	s := server.New(mcp.Implementation{Name: "echo", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (string, error) {
		return in.Message, nil
	})
	return s
}

var hundredBytes = echoIn{Message: strings.Repeat("x", 74), N: 12345}

// nobody is a peer that accepts all messages and sends none.
type nobody struct{}

func (nobody) Call(context.Context, string, jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, jsonrpc.ErrClosed
}
func (nobody) Notify(context.Context, string, jsonrpc.Appender) error { return nil }
func (nobody) Cancel(jsonrpc.ID)                                      {}

// A dispatcher is one link of a server, from request bytes to reply bytes.
type dispatcher struct {
	handler jsonrpc.Handler
	request []byte
	buf     []byte
}

const (
	modernMeta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
)

func newDispatcher(tb testing.TB, s *server.Server, era client.Era, method, params string) *dispatcher {
	tb.Helper()
	link := transport.Link{Peer: nobody{}, Input: context.Background(), Go: func(func(context.Context)) {}}
	d := &dispatcher{handler: s.Bind(link)}
	meta := modernMeta
	if era == client.Legacy {
		meta = ""
		req, err := jsonrpc.Decode([]byte(initialize))
		if err != nil {
			tb.Fatal(err)
		}
		if err := d.handler.Handle(tb.Context(), nobody{}, req.(*jsonrpc.Request), &jsonrpc.Reply{}); err != nil {
			tb.Fatal(err)
		}
	}
	if params == "" {
		meta = strings.TrimPrefix(meta, ",")
	}
	d.request = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s%s}}`, method, params, meta)
	return d
}

func (d *dispatcher) dispatch(tb testing.TB) []byte {
	msg, err := jsonrpc.Decode(d.request)
	if err != nil {
		tb.Fatal(err)
	}
	reply := jsonrpc.Reply{Buf: d.buf[:0]}
	if err := d.handler.Handle(context.Background(), nobody{}, msg.(*jsonrpc.Request), &reply); err != nil {
		tb.Fatal(err)
	}
	d.buf = reply.Buf
	return reply.Buf
}

var echoParams = fmt.Sprintf(`"name":"echo","arguments":{"message":%q,"n":%d}`, hundredBytes.Message, hundredBytes.N)

func eachEra[T testing.TB](tb interface {
	Run(string, func(T)) bool
}, run func(T, client.Era)) {
	if transporttests.CarriesModern() {
		tb.Run("modern", func(t T) { run(t, client.Modern) })
	}
	tb.Run("legacy", func(t T) { run(t, client.Legacy) })
}

func BenchmarkDispatchCall(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		d := newDispatcher(b, newEcho(), era, mcp.MethodToolsCall, echoParams)
		b.ReportAllocs()
		for b.Loop() {
			d.dispatch(b)
		}
	})
}

func BenchmarkPipeCall(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		session, err := client.Connect(b.Context(), transport.Pipe(newEcho()), &client.Options{Era: era})
		if err != nil {
			b.Fatal(err)
		}
		defer session.Close()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := session.CallTool(b.Context(), "echo", hundredBytes, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkListThousand(b *testing.B) {
	s := server.New(mcp.Implementation{Name: "many", Version: "1"}, nil)
	for i := range 1000 {
		server.AddTool(s, server.Tool{Name: fmt.Sprintf("tool-%d", i), Description: "One of many."},
			func(context.Context, *server.Request, echoIn) (string, error) { return "", nil })
	}
	eachEra(b, func(b *testing.B, era client.Era) {
		d := newDispatcher(b, s, era, mcp.MethodToolsList, "")
		b.ReportAllocs()
		for b.Loop() {
			d.dispatch(b)
		}
	})
}

// newMountedEcho is newEcho, mounted with a prefix depth times.
func newMountedEcho(t testing.TB, prefixes ...string) *server.Server {
	t.Helper()
	s := newEcho()
	for _, prefix := range prefixes {
		outer := newServer(nil)
		mount(t, outer, s, prefix)
		s = outer
	}
	return s
}

// TestMountBudget checks that a mounted tool costs only the new params and call.
func TestMountBudget(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		direct := newDispatcher(t, newEcho(), era, mcp.MethodToolsCall, echoParams)
		allocations, bytes := cost(func() { direct.dispatch(t) })
		for _, prefixes := range [][]string{{""}, {"a_"}, {"a_", ""}, {"a_", "b_"}} {
			name, renamings := "echo", 0.0
			for _, prefix := range prefixes {
				if name = prefix + name; prefix != "" {
					renamings++
				}
			}
			mounted := newDispatcher(t, newMountedEcho(t, prefixes...), era, mcp.MethodToolsCall,
				fmt.Sprintf(`"name":%q,"arguments":{"message":%q,"n":%d}`, name, hundredBytes.Message, hundredBytes.N))
			wantCost(t, "a call of "+name, func() { mounted.dispatch(t) }, allocations+3*renamings+0.5, bytes+1000*renamings+64)
		}
	})
}

func BenchmarkDispatchMounted(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		for _, prefixes := range [][]string{nil, {""}, {"a_"}, {"a_", "b_"}} {
			b.Run(fmt.Sprint(len(prefixes), "-deep", prefixes), func(b *testing.B) {
				name := "echo"
				for _, prefix := range prefixes {
					name = prefix + name
				}
				d := newDispatcher(b, newMountedEcho(b, prefixes...), era, mcp.MethodToolsCall,
					fmt.Sprintf(`"name":%q,"arguments":{"message":%q,"n":%d}`, name, hundredBytes.Message, hundredBytes.N))
				b.ReportAllocs()
				for b.Loop() {
					d.dispatch(b)
				}
			})
		}
	})
}

// maxReflected bounds the allocations of an annotated method beyond the allocations of a typed function.
const maxReflected = 6

type echoService struct{}

type echoMethodIn struct {
	_ server.ToolTag `name:"echo"`
	echoIn
}

func (echoService) Echo(_ context.Context, in echoMethodIn) (string, error) {
	return in.Message, nil
}

type pointMethodIn struct {
	_ server.ToolTag `name:"point"`
	echoIn
}

func (echoService) Point(_ context.Context, r *server.Request, in pointMethodIn, _ *shelfDB) (point, error) {
	return point{X: in.N, Y: in.N}, nil
}

// TestServiceCallBudget checks that a call of a method does not look up the method again.
func TestServiceCallBudget(t *testing.T) {
	racetest.Skip(t)
	generic := newEcho()
	server.AddTool(generic, server.Tool{Name: "point"}, func(_ context.Context, _ *server.Request, in echoIn) (point, error) {
		return point{X: in.N, Y: in.N}, nil
	})
	annotated := newServer(&server.Options{Dependencies: []server.Dependency{shelf()}})
	server.AddService(annotated, echoService{})
	if err := annotated.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, tool := range []string{"echo", "point"} {
			params := `"name":"` + tool + `","arguments":{"message":"x","n":12345}`
			costs := func(s *server.Server) float64 {
				d := newDispatcher(t, s, era, mcp.MethodToolsCall, params)
				allocations, _ := cost(func() { d.dispatch(t) })
				return allocations
			}
			direct, reflected := costs(generic), costs(annotated)
			t.Logf("%s: %.1f allocations, %.1f as a method", tool, direct, reflected)
			if reflected > direct+maxReflected {
				t.Errorf("%s: a method costs %.1f allocations, a function %.1f: want at most %d more", tool, reflected, direct, maxReflected)
			}
		}
	})
}

// Each page of a list is encoded once. Pages do not displace each other.
func TestPageBudget(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "many", Version: "1"}, nil)
	description := strings.Repeat("x", 30<<10)
	for i := range 100 { // three pages
		server.AddTool(s, server.Tool{Name: fmt.Sprintf("tool-%d", i), Description: description},
			func(context.Context, *server.Request, echoIn) (string, error) { return "", nil })
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	raw, err := session.Call(t.Context(), mcp.MethodToolsList, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var first mcp.ListToolsResult
	if err := json.Unmarshal(raw, &first); err != nil || first.NextCursor == nil {
		t.Fatalf("the first page has no cursor: %v", err)
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		one := newDispatcher(t, s, era, mcp.MethodToolsList, "")
		two := newDispatcher(t, s, era, mcp.MethodToolsList, fmt.Sprintf(`"cursor":%q`, *first.NextCursor))
		wantCost(t, "two pages", func() {
			one.dispatch(t)
			two.dispatch(t)
		}, 20, 4<<10)
	})
}
