package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// memberNames are the names of an object's members in their order, without escapes, those
// that stand twice included.
func memberNames(t testing.TB, object []byte) (names []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		names = append(names, fmt.Sprint(name))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
	}
	return names
}

// TestEscapedMembers: a member of a result is itself however its name is written, so the
// server adds no second one, and takes out what does not belong there.
func TestEscapedMembers(t *testing.T) {
	const far = `{"name":"far","version":"1"}`
	results := map[string]string{
		"escaped _meta":      `{"KIND":[],"\u005fmeta":{"org.example/x":1}}`,
		"escaped serverInfo": `{"KIND":[],"_meta":{"org.example/x":1,"io.modelcontextprotocol\/serverInfo":` + far + `}}`,
		"both":               `{"\u005f\u006deta":{"org.example/x":1,"io.modelcontextprotocol/serverInf\u006f":` + far + `},"KIND":[]}`,
		"escaped stamp":      `{"KIND":[],"result\u0054ype":"complete","ttl\u004ds":7,"cache\u0053cope":"private","\u005fmeta":{"org.example/x":1}}`,
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for what, result := range results {
			answer := func(kind string) mcp.Raw { return mcp.Raw(strings.Replace(result, "KIND", kind, 1)) }
			s, child, m := newServer(nil), newServer(nil), newMarket()
			server.AddRawTool(child, server.Tool{Name: "raw", InputSchema: jsonRaw(`{"type":"object"}`)},
				func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) { return answer("content"), nil })
			m.offers(m.entry(mcp.KindPrompt, "p", `{"name":"p"}`), m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`))
			m.answer = func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				return answer(map[string]string{mcp.MethodPromptsGet: "messages", mcp.MethodResourcesRead: "contents"}[call.Method()]), nil
			}
			mount(t, s, child, "c_")
			mountProvider(t, s, m, "m_")
			for method, params := range map[string]string{
				mcp.MethodToolsCall: `"name":"c_raw","arguments":{}`, mcp.MethodPromptsGet: `"name":"m_p"`, mcp.MethodResourcesRead: `"uri":"app:r"`,
			} {
				got := newDispatcher(t, s, era, method, params).dispatch(t)
				var object map[string]json.RawMessage
				if err := json.Unmarshal(got, &object); err != nil {
					t.Errorf("%s, %s: %s: %v", what, method, got, err)
					continue
				}
				names, meta := memberNames(t, got), memberNames(t, object["_meta"])
				slices.Sort(names)
				slices.Sort(meta)
				want := []string{"org.example/x"}
				if era == client.Modern {
					want = []string{mcp.MetaServerInfo, "org.example/x"}
				}
				if len(slices.Compact(slices.Clone(names))) != len(names) || !slices.Equal(meta, want) {
					t.Errorf("%s, %s: sent is %s, with _meta %q, want %q", what, method, got, meta, want)
				}
				if strings.Contains(string(got), "far") {
					t.Errorf("%s, %s: sent is %s", what, method, got)
				}
			}
		}
	}
}

// TestEscapedMetaArrives at a client, over the transport of this run.
func TestEscapedMetaArrives(t *testing.T) {
	if !everywhere.CarriesModern() {
		t.Skip("the transport carries no modern era")
	}
	s := newServer(nil)
	server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: jsonRaw(`{"type":"object"}`)}, func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) {
		return mcp.Raw(`{"content":[],"\u005fmeta":{"org.example/x":1}}`), nil
	})
	result := call(t, connect(t, s, client.Modern), "raw", `{}`)
	if names := memberNames(t, result.Meta); !slices.Contains(names, "org.example/x") {
		t.Errorf("_meta is %s", result.Meta)
	}
}
