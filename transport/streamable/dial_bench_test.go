package streamable_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A modern call of a tool, as package internal/era writes it.
const modernCall = `{"name":"search","arguments":{"query":"dovetail joints","limit":10},"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}`

// cannedTransport answers every POST with the same bytes, except for the id.
func cannedTransport(tb testing.TB) *httptest.Server {
	var number int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number++
		w.Header()["Content-Type"] = []string{"application/json"}
		body := make([]byte, 0, 128)
		body = append(body, `{"jsonrpc":"2.0","id":`...)
		body = strconv.AppendInt(body, number, 10)
		body = append(body, `,"result":{"resultType":"complete","content":[{"type":"text","text":"ten results"}]}}`...)
		w.Write(body)
	}))
	tb.Cleanup(server.Close)
	return server
}

func dial(tb testing.TB, url string) transport.Conn {
	tb.Helper()
	conn, err := streamable.Dial(url, nil).Dial(context.Background(), new(recorder))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// calls are the params of a call in both eras.
var calls = map[string]string{"modern": modernCall, "legacy": modernCall[:strings.Index(modernCall, `,"_meta"`)] + "}"}

// A call costs little compared to net/http at both ends.
func TestDialAllocations(t *testing.T) {
	racetest.Skip(t)
	for name, most := range map[string]float64{"modern": 104, "legacy": 97} {
		conn := dial(t, cannedTransport(t).URL)
		params := jsonrpc.Raw(calls[name])
		got := testing.AllocsPerRun(500, func() {
			if _, err := conn.Call(context.Background(), "tools/call", params); err != nil {
				t.Fatal(err)
			}
		})
		if got > most {
			t.Errorf("%s: %v allocations, want at most %v", name, got, most)
		}
	}
}

// A whole call, including the server and net/http.
func BenchmarkDialCall(b *testing.B) {
	for name, params := range calls {
		b.Run(name, func(b *testing.B) {
			conn := dial(b, cannedTransport(b).URL)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Call(b.Context(), "tools/call", jsonrpc.Raw(params)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	// The cost of net/http alone.
	b.Run("http", func(b *testing.B) {
		server := cannedTransport(b)
		client := server.Client()
		b.ReportAllocs()
		for b.Loop() {
			res, err := client.Post(server.URL, "application/json", strings.NewReader(modernCall))
			if err != nil {
				b.Fatal(err)
			}
			var body [256]byte
			for err == nil {
				_, err = res.Body.Read(body[:])
			}
			res.Body.Close()
		}
	})
}
