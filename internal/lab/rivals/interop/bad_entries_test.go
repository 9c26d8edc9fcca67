package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Clients of all SDKs get the lists of a server with entries that are not valid, through a proxy and a relay.
func TestBadEntries(t *testing.T) {
	rows := badEntries(t)
	for _, face := range []string{"proxy", "relay"} {
		for client := range clients {
			for _, version := range append(slices.Clone(legacy), modern) {
				p := pair{client, face + " of bad entries", "streamable", version}
				t.Run(p.String(), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
					defer cancel()
					s := open(ctx, t, p, nil)
					for _, list := range badLists {
						got, err := s.client.list(ctx, list.kind)
						if err != nil {
							t.Errorf("%s: %v", list.kind, err)
							continue
						}
						want := []string{list.goodID}
						for _, row := range rows[list.member] {
							if row.Kept {
								want = append(want, fmt.Sprint(row.Entry[list.id]))
							}
						}
						slices.Sort(got)
						slices.Sort(want)
						if !slices.Equal(got, want) {
							t.Errorf("%s: %q, want %q", list.kind, got, want)
						}
					}
				})
			}
		}
	}
}

var badLists = []struct{ kind, method, member, id, goodID, good string }{
	{"tools", mcp.MethodToolsList, "tools", "name", "good", `{"name":"good","inputSchema":{"type":"object"}}`},
	{"prompts", mcp.MethodPromptsList, "prompts", "name", "good", `{"name":"good"}`},
	{"resources", mcp.MethodResourcesList, "resources", "uri", "test:good", `{"uri":"test:good","name":"good"}`},
	{"templates", mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", "test:good/{x}", `{"uriTemplate":"test:good/{x}","name":"good"}`},
}

// A badEntry is an entry of a list that is not valid by the schema of MCP.
type badEntry struct {
	Raw   json.RawMessage `json:"entry"`
	Kept  bool            // it can be repaired
	Entry map[string]any  `json:"-"`
}

func badEntries(t *testing.T) map[string][]badEntry {
	data, err := os.ReadFile("../../../../bridge/internal/entrycheck/testdata/bad.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows map[string][]badEntry
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, list := range rows {
		for i := range list {
			_ = json.Unmarshal(list[i].Raw, &list[i].Entry) // some are no objects
		}
	}
	return rows
}

// A badServer lists entries that are not valid.
type badServer struct {
	pages map[string]string // by method
}

func newBadServer(t *testing.T) *badServer {
	s, rows := &badServer{map[string]string{}}, badEntries(t)
	for _, list := range badLists {
		page := ""
		for _, row := range rows[list.member] {
			page += string(row.Raw) + ","
		}
		s.pages[list.method] = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","` + list.member + `":[` + page + list.good + `]}`
	}
	return s
}

func (s *badServer) Bind(transport.Link) jsonrpc.Handler { return s }

func (s *badServer) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func (s *badServer) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	const info = `"capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"bad","version":"1"}}`
	switch page, ok := s.pages[req.Method]; {
	case ok:
		reply.Buf = append(reply.Buf, page...)
	case req.Method == mcp.MethodInitialize:
		reply.Buf = append(append(append(reply.Buf, `{"protocolVersion":`...), req.Member("protocolVersion")...), ","+info...)
	case req.Method == mcp.MethodDiscover:
		reply.Buf = append(reply.Buf, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],`+info...)
	case req.Method == mcp.MethodPing:
		reply.Buf = append(reply.Buf, "{}"...)
	default:
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found"}
	}
	return nil
}

func openBadProxy(t *testing.T, _ *setup) *testServer {
	served := server.New(mcp.Implementation{Name: "server", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := served.Mount(bridge.Proxy(transport.Pipe(newBadServer(t)), nil), nil); err != nil {
		t.Fatal(err)
	}
	endpoint := streamable.Handler(served, nil)
	return &testServer{events: newToolEvents(), handler: endpoint, close: func() {
		endpoint.Close()
		_ = served.Shutdown(context.Background())
	}}
}

func openBadRelay(t *testing.T, _ *setup) *testServer {
	relay := bridge.Relay(transport.Pipe(newBadServer(t)), nil)
	endpoint := streamable.Handler(relay, nil)
	return &testServer{events: newToolEvents(), handler: endpoint, close: func() {
		endpoint.Close()
		relay.Close()
	}}
}
