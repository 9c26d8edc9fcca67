package streamable_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

type regional struct {
	Region string `json:"region" jsonschema:"x-mcp-header=Region"`
	Floor  int    `json:"floor,omitempty" jsonschema:"x-mcp-header=Floor"`
}

// newRegionalServer has a tool with parameters in headers, and one that needs what
// the client of these tests cannot do.
func newRegionalServer() *server.Server {
	s := newLegacyServer()
	server.AddTool(s, server.Tool{Name: "regional"}, func(_ context.Context, _ *server.Request, in regional) (string, error) {
		return "in " + in.Region, nil
	})
	return s
}

// Each request fails more than one check: the one that is named comes first.
func TestOrderOfChecks(t *testing.T) {
	const (
		other   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"v999.0.0","io.modelcontextprotocol/clientCapabilities":{}}`
		legacy  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}`
		partial = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	)
	request := func(method, members string) string {
		return `{"jsonrpc":"2.0","id":"x","method":"` + method + `","params":{` + members + `}}`
	}
	headers := func(version, method, name string) []string {
		return []string{"MCP-Protocol-Version", version, "Mcp-Method", method, "Mcp-Name", name}
	}
	for _, test := range []struct {
		name    string
		headers []string
		body    string
		status  int
		code    string // "" when the request has no answer
	}{
		{"host before anything", []string{"Host", "evil.example.com", "Content-Type", "text/plain"}, `{`, 403, "-32600"},
		{"origin before anything", []string{"Origin", "https://evil.example.com", "Content-Type", "text/plain"}, `{`, 403, "-32600"},
		{"type before syntax", []string{"Content-Type", "text/plain"}, `{`, 415, "-32600"},
		{"syntax", headers("2026-07-28", "", ""), `{`, 400, "-32700"},
		{"two messages", nil, sum(1, 1, 1) + sum(2, 2, 2), 400, "-32700"},
		{"no message", headers("2026-07-28", "", ""), `{"jsonrpc":"2.0","id":"x"}`, 400, "-32600"},
		{"null id", headers("2026-07-28", "", ""), `{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{` + modernMeta + `}}`, 400, "-32600"},
		{"empty batch", nil, `[]`, 400, "-32600"},
		{"batch with a version", nil, `[` + sum(1, 1, 1) + `]`, 400, "-32600"},
		{"batch without session", nil, `[` + initialized + `]`, 400, "-32600"},
		{"response without session", nil, `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, "-32600"},

		{"_meta lacks something before headers", headers("v999.0.0", "other", "other"), request("tools/list", partial), 400, "-32602"},
		{"_meta is missing under a modern header", headers("2026-07-28", "tools/list", ""), request("tools/list", ""), 400, "-32602"},
		{"_meta is missing under an unknown header", headers("v999.0.0", "tools/list", ""), request("tools/list", ""), 400, "-32602"},
		{"ping has no place there either", headers("2026-07-28", "ping", ""), request("ping", ""), 400, "-32602"},
		{"version header is missing", headers("", "other", ""), request("tools/list", modernMeta), 400, "-32020"},
		{"version header differs before version", headers("2026-07-28", "other", ""), request("tools/list", other), 400, "-32020"},
		{"version header twice", headers("2026-07-28\n2026-07-28", "tools/list", ""), request("tools/list", modernMeta), 400, "-32020"},
		{"version before method", headers("v999.0.0", "other", ""), request("tools/list", other), 400, "-32022"},
		{"a legacy version is not served that way", headers("2025-11-25", "tools/list", ""), request("tools/list", legacy), 400, "-32022"},
		{"method header is missing", headers("2026-07-28", "", ""), request("nonsense", modernMeta), 400, "-32020"},
		{"method header differs in case", headers("2026-07-28", "Tools/list", ""), request("tools/list", modernMeta), 400, "-32020"},
		{"name header is missing", headers("2026-07-28", "tools/call", ""), request("tools/call", `"name":"regional",`+modernMeta), 400, "-32020"},
		{"name header differs", headers("2026-07-28", "tools/call", "other"), request("tools/call", `"name":"regional",`+modernMeta), 400, "-32020"},
		{"parameter header is missing", headers("2026-07-28", "tools/call", "regional"), request("tools/call", `"name":"regional","arguments":{"region":"eu"},`+modernMeta), 400, "-32020"},
		{"method does not exist", headers("2026-07-28", "nonsense", ""), request("nonsense", modernMeta), 404, "-32601"},
		{"initialize that describes itself", headers("2026-07-28", "initialize", ""), request("initialize", modernMeta), 404, "-32601"},
		{"capability is missing", headers("2026-07-28", "tools/call", "ask"), request("tools/call", `"name":"ask",`+modernMeta), 400, "-32021"},
		{"what the call itself refuses", headers("2026-07-28", "tools/call", "nonsense"), request("tools/call", `"name":"nonsense",`+modernMeta), 200, "-32602"},

		{"initialize under a modern header", headers("2026-07-28", "", ""), initialize(mcp.Version20251125), 400, "-32020"},
		{"a notification that describes itself", nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{` + modernMeta + `}}`, 202, ""},
		{"a notification under a modern header", headers("2026-07-28", "", ""), initialized, 202, ""},
		{"a call without session", nil, request("tools/list", ""), 400, "-32600"},
		{"a call of an unknown session", []string{"Mcp-Session-Id", "nonsense"}, request("tools/list", ""), 404, "-32600"},
		{"Accept", []string{"Accept", "text/html"}, `{`, 406, "-32600"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := serve(t, newRegionalServer(), nil)
			resp := r.with(test.headers...).post(test.body)
			if resp.StatusCode != test.status {
				t.Errorf("the status is %s, want %d", resp.Status, test.status)
			}
			body := resp.body()
			if test.code == "" {
				if body != "" {
					t.Errorf("the body is %s", body)
				}
				return
			}
			answer, err := jsonscan.ReadObject([]byte(body))
			if err != nil {
				t.Fatalf("the body is %s: %v", body, err)
			}
			refused, err := jsonscan.ReadObject(answer.Get("error"))
			if err != nil || string(refused.Get("code")) != test.code {
				t.Errorf("the body is %s, want an error %s", body, test.code)
			}
			if strings.Contains(test.body, `"id":"x","method"`) && test.code != "-32600" && string(answer.Get("id")) != `"x"` {
				t.Errorf("the body is %s, want the id of the request", body)
			}
		})
	}
}

func TestParametersInHeaders(t *testing.T) {
	r := serve(t, newRegionalServer(), nil).modern("tools/call", "regional")
	body := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"regional","arguments":` + arguments + `,` + modernMeta + `}}`
	}
	for _, test := range []struct {
		region, floor, arguments string
		status                   int
	}{
		{"eu", "", `{"region":"eu"}`, 200},
		{"eu", "3", `{"region":"eu","floor":3}`, 200},
		{"eu", "3.0", `{"region":"eu","floor":3}`, 200},
		{"=?base64?5pel5pys?=", "", `{"region":"日本"}`, 200},
		{"=?base64?!?=", "", `{"region":"日本"}`, 400},
		{"us", "", `{"region":"eu"}`, 400},
		{"eu\neu", "", `{"region":"eu"}`, 400},
		{"eu", "4", `{"region":"eu","floor":3}`, 400},
		{"eu", "4", `{"region":"eu"}`, 400},
	} {
		headers := []string{"Mcp-Param-Region", test.region}
		if test.floor != "" {
			headers = append(headers, "Mcp-Param-Floor", test.floor)
		}
		resp := r.with(headers...).post(body(test.arguments))
		if resp.StatusCode != test.status {
			t.Errorf("%+v: the status is %s, want %d: %s", test, resp.Status, test.status, resp.body())
		}
	}
	r.with("Mcp-Param-Region", "eu", "Mcp-Param-Other", "whatever").post(body(`{"region":"eu"}`)).is(http.StatusOK, "in eu")
}

// A request of a version without sessions is answered as if there were none.
func TestModernRequestsIgnoreSessions(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/call", "sum").with("Mcp-Session-Id", "nonsense", "Last-Event-ID", "1")
	resp := r.post(sum(1, 2, 3)).is(http.StatusOK, `"5"`)
	if got := resp.Header.Get("Mcp-Session-Id"); got != "" {
		t.Errorf("Mcp-Session-Id is %s", got)
	}
}

func TestMethods(t *testing.T) {
	r := serve(t, newServer(), nil)
	for _, method := range []string{"PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"} {
		resp := r.send(t.Context(), method, "")
		if allow := resp.is(http.StatusMethodNotAllowed).Header.Get("Allow"); allow != "POST, GET, DELETE" {
			t.Errorf("%s: Allow is %s", method, allow)
		}
	}
	r.send(t.Context(), http.MethodGet, "").is(http.StatusBadRequest)
	r.send(t.Context(), http.MethodDelete, "").is(http.StatusBadRequest)
	r.with("Accept", "application/json").send(t.Context(), http.MethodGet, "").is(http.StatusNotAcceptable)
}

// A client that takes only a stream gets one, and one that takes no stream gets
// the result alone.
func TestAccept(t *testing.T) {
	r := serve(t, newServer(), nil)
	r.modern("tools/call", "sum").with("Accept", "text/event-stream").post(sum(1, 2, 3)).message(`"5"`)
	r.open(mcp.Version20251125).with("Accept", "text/event-stream").post(call(1, "sum", `{"a":2,"b":3}`)).next()
	steps := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{"a":2,"b":0},` + modernMeta + `}}`
	r.modern("tools/call", "steps").with("Accept", "application/json").post(steps).is(http.StatusOK, `"done"`)
	r.open(mcp.Version20251125).with("Accept", "application/json").post(call(1, "steps", `{"a":2,"b":0}`)).is(http.StatusOK, `"done"`)

	r.modern("subscriptions/listen", "").with("Accept", "application/json").post(listen).is(http.StatusNotAcceptable, `"id":1`)
}

func TestMaxMessage(t *testing.T) {
	r := serve(t, newServer(), &streamable.Options{MaxMessage: 1000}).modern("tools/call", "sum")
	r.post(sum(1, 2, 3) + strings.Repeat(" ", 1000)).is(http.StatusRequestEntityTooLarge)
	r.post(sum(1, 2, 3)).is(http.StatusOK)
}
