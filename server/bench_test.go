package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type echoIn struct {
	Message string `json:"message" jsonschema_description:"the text"`
	N       int    `json:"n" jsonschema_description:"a number"`
}

// newEcho is a server with one typed tool that gives back its arguments.
func newEcho() *server.Server {
	s := server.New(mcp.Implementation{Name: "echo", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (string, error) {
		return in.Message, nil
	})
	return s
}

var hundredBytes = echoIn{Message: strings.Repeat("x", 74), N: 12345}

// nobody is a peer that takes what it is told and is never asked.
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
	if everywhere.CarriesModern() {
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
