package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A renamingServer lists one tool with a header, and another long name each time.
type renamingServer struct{ lists atomic.Int64 }

func (s *renamingServer) Bind(transport.Link) jsonrpc.Handler                   { return s }
func (s *renamingServer) HandleNotification(_ jsonrpc.Peer, _ *jsonrpc.Request) {}

func (s *renamingServer) Handle(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
	reply.Buf = fmt.Appendf(reply.Buf, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"%d%s","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a"}}}}]}`,
		s.lists.Add(1), strings.Repeat("x", 2<<20))
	return nil
}

// The headers that a server declares for ever new tools take bounded memory.
func TestHeadersOfToolsAreBounded(t *testing.T) {
	racetest.Skip(t)
	handler := streamable.Handler(new(renamingServer), nil)
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close()
	conn, err := streamable.Dial(web.URL, nil).Dial(t.Context(), new(renamingServer))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // also frees what pools hold
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for range 20 { // 40 MiB of names
		params := jsonrpc.Raw(`{"_meta":{"` + mcp.MetaProtocolVersion + `":"2026-07-28","` + mcp.MetaClientCapabilities + `":{},"` + mcp.MetaClientInfo + `":{"name":"c","version":"1"}}}`)
		if _, err := conn.Call(t.Context(), mcp.MethodToolsList, params); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 24<<20 {
		t.Errorf("the heap has %d MiB more", grown>>20)
	}
}

// A wordyServer lists one tool with a header and a long description, and answers its calls.
type wordyServer struct{ renamingServer }

func (s *wordyServer) Bind(transport.Link) jsonrpc.Handler { return s }

func (s *wordyServer) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == mcp.MethodToolsCall {
		reply.Buf = append(reply.Buf, `{"resultType":"complete","content":[]}`...)
		return nil
	}
	reply.Buf = fmt.Appendf(reply.Buf, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","description":"%s","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a"}}}}]}`,
		strings.Repeat("x", 2<<20))
	return nil
}

// A tool that is listed again and again takes the room of one.
func TestHeadersOfToolsListedAgain(t *testing.T) {
	handler := streamable.Handler(new(wordyServer), nil)
	var sent atomic.Value
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == mcp.MethodToolsCall {
			sent.Store(r.Header.Get("Mcp-Param-A"))
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	defer handler.Close()
	conn, err := streamable.Dial(web.URL, nil).Dial(t.Context(), new(wordyServer))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	meta := `"_meta":{"` + mcp.MetaProtocolVersion + `":"2026-07-28","` + mcp.MetaClientCapabilities + `":{},"` + mcp.MetaClientInfo + `":{"name":"c","version":"1"}}`
	for range 6 { // 12 MiB of descriptions
		if _, err := conn.Call(t.Context(), mcp.MethodToolsList, jsonrpc.Raw("{"+meta+"}")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Call(t.Context(), mcp.MethodToolsCall, jsonrpc.Raw(`{"name":"t","arguments":{"a":"value"},`+meta+"}")); err != nil {
		t.Fatal(err)
	}
	if sent.Load() != "value" {
		t.Errorf("the call has the header %q", sent.Load())
	}
}
