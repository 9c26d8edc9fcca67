package era_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// newServer returns a server with an echo tool and a tool that describes its caller.
func newServer(opts *server.Options) *server.Server {
	s := server.New(mcp.Implementation{
		Name: "lathe", Version: "2", Title: "The lathe", Description: "It turns.", WebsiteURL: "https://lathe.example",
		Icons: []mcp.Icon{{Src: "https://lathe.example/icon.png"}},
	}, opts)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in struct {
		Say string `json:"say,omitempty"`
	}) (string, error) {
		return in.Say, nil
	})
	server.AddTool(s, server.Tool{Name: "whoami"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		c := r.Caller()
		name := "nobody"
		if c.Info != nil {
			name = c.Info.Name
		}
		return fmt.Sprintf("%s %s roots:%t level:%q principal:%q", name, c.Version, c.Capabilities.Roots != nil, c.LogLevel, c.Principal), nil
	})
	return s
}

func testOpening(t *testing.T, version mcp.Version) {
	p := eratest.Connect(t, newServer(&server.Options{Instructions: "Turn slowly."}))
	p.Version = version
	if !version.Modern() {
		answer := p.Call(mcp.MethodInitialize, eratest.InitializeParams(version, "{}"))
		eratest.Want(t, answer, fmt.Sprintf("%q", version), "result", "protocolVersion")
		eratest.Want(t, answer, `"lathe"`, "result", "serverInfo", "name")
		eratest.Want(t, answer, `"Turn slowly."`, "result", "instructions")
		eratest.Want(t, answer, "", "result", "resultType")
		eratest.Want(t, answer, "", "result", "_meta")
		p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		p.ExpectSilence()
		return
	}
	answer := p.Call(mcp.MethodDiscover, "")
	eratest.Want(t, answer, `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`, "result", "supportedVersions")
	eratest.Want(t, answer, `"lathe"`, "result", "_meta", mcp.MetaServerInfo, "name")
	eratest.Want(t, answer, `"Turn slowly."`, "result", "instructions")
	eratest.Want(t, answer, "", "result", "serverInfo")
	// A modern request needs no handshake.
	q := eratest.Connect(t, newServer(nil))
	q.Version = version
	eratest.Want(t, q.Call(mcp.MethodToolsCall, `{"name":"echo","arguments":{"say":"hi"}}`), `"hi"`, "result", "content", "0", "text")
}

func testUnknownVersion(t *testing.T, version mcp.Version) {
	p := eratest.Connect(t, newServer(nil))
	if !version.Modern() {
		// The server offers its newest version that has a handshake.
		for _, unknown := range []string{"1999-01-01", "2026-07-28", "2099-12-31", "1.0"} {
			answer := eratest.Connect(t, newServer(nil)).Call(mcp.MethodInitialize, eratest.InitializeParams(mcp.Version(unknown), "{}"))
			eratest.Want(t, answer, `"2025-11-25"`, "result", "protocolVersion")
		}
		// A modern request cannot declare a legacy version.
		claimed := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`, version)
		p.Send(claimed)
		answer := p.Next()
		eratest.WantError(t, answer, mcp.CodeUnsupportedVersion)
		eratest.Want(t, answer, fmt.Sprintf("%q", version), "error", "data", "requested")
		return
	}
	for _, unknown := range []mcp.Version{"v999.0.0", "2099-12-31", ""} {
		p.Version = unknown
		p.Send(`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":` + p.Meta() + `}}`)
		answer := p.Next()
		eratest.Want(t, answer, `"a"`, "id")
		eratest.WantError(t, answer, mcp.CodeUnsupportedVersion)
		eratest.Want(t, answer, fmt.Sprintf("%q", unknown), "error", "data", "requested")
		eratest.Want(t, answer, `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`, "error", "data", "supported")
	}
	// The version is checked before the method.
	p.Send(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"_meta":` + p.Meta() + `}}`)
	eratest.WantError(t, p.Next(), mcp.CodeUnsupportedVersion)
}

func testCaller(t *testing.T, version mcp.Version) {
	s := newServer(nil)
	p := eratest.Open(t, s, version, `{"roots":{}}`)
	whoami := func(p *eratest.Peer) string {
		return eratest.ResultText(p.Call(mcp.MethodToolsCall, `{"name":"whoami"}`))
	}
	if !version.Modern() {
		if got, want := whoami(p), fmt.Sprintf(`tester %s roots:true level:"info" principal:""`, version); got != want {
			t.Errorf("the caller is %q, want %q", got, want)
		}
		return
	}
	if got, want := whoami(p), fmt.Sprintf(`tester %s roots:true level:"" principal:""`, version); got != want {
		t.Errorf("the caller is %q, want %q", got, want)
	}
	// Each modern request has its own metadata.
	p.Capabilities, p.Level = "{}", "error"
	if got, want := whoami(p), fmt.Sprintf(`tester %s roots:false level:"error" principal:""`, version); got != want {
		t.Errorf("the caller is %q, want %q", got, want)
	}
	p.Send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"whoami","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	if got, want := eratest.ResultText(p.Next()), `nobody 2026-07-28 roots:false level:"" principal:""`; got != want {
		t.Errorf("the caller is %q, want %q", got, want)
	}
	other := eratest.ConnectAs(t, s, "alice")
	other.Version = version
	if got, want := whoami(other), fmt.Sprintf(`tester %s roots:false level:"" principal:"alice"`, version); got != want {
		t.Errorf("the caller is %q, want %q", got, want)
	}
}

// testExtensions checks that a server gets the extensions of a client unchanged.
func testExtensions(t *testing.T, version mcp.Version) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "extension"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return string(r.Caller().Capabilities.Extensions["org.example/x"]), nil
	})
	p := eratest.Open(t, s, version, `{"extensions":{"org.example/x":{"kinds": ["a"]}}}`)
	if got, want := eratest.ResultText(p.Call(mcp.MethodToolsCall, `{"name":"extension"}`)), `{"kinds": ["a"]}`; got != want {
		t.Errorf("the extension is %q, want %q", got, want)
	}
}

func testNotOpened(t *testing.T, version mcp.Version) {
	p := eratest.Connect(t, newServer(nil))
	p.Version = version
	if !version.Modern() {
		answer := p.Call(mcp.MethodToolsList, "")
		eratest.WantError(t, answer, jsonrpc.InvalidParams)
		eratest.Want(t, answer, `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`, "error", "data", "supported")
		return
	}
	// Each request lacks one member.
	for name, meta := range map[string]string{
		"no capabilities":          `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`,
		"capabilities not object":  `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}`,
		"version not a string":     `{"io.modelcontextprotocol/protocolVersion":20260728,"io.modelcontextprotocol/clientCapabilities":{}}`,
		"info without a name":      `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"version":"1"}}`,
		"info not an object":       `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":"me"}`,
		"unknown log level":        `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"}`,
		"log level not a string":   `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":3}`,
		"capabilities null":        `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":null}`,
		"a version that is null":   `{"io.modelcontextprotocol/protocolVersion":null,"io.modelcontextprotocol/clientCapabilities":{}}`,
		"info with a wrong member": `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":1,"version":"1"}}`,
	} {
		p.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + meta + `}}`)
		if answer := p.Next(); eratest.At(answer, "error", "code") != "-32602" || eratest.At(answer, "id") != "1" {
			t.Errorf("%s: the response is %s, want invalid params", name, answer)
		}
	}
}

func testOpenedTwice(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newServer(nil), version, `{"roots":{}}`)
	if version.Modern() {
		// server/discover does not affect the handshake.
		p.Call(mcp.MethodDiscover, "")
		p.Call(mcp.MethodDiscover, "")
		p.Version = mcp.LatestLegacyVersion
		eratest.Want(t, p.Call(mcp.MethodInitialize, eratest.InitializeParams(p.Version, "{}")), `"2025-11-25"`, "result", "protocolVersion")
		return
	}
	// A second handshake begins a new session. An invalid one does not.
	whoami := func() string { return eratest.ResultText(p.Call(mcp.MethodToolsCall, `{"name":"whoami"}`)) }
	p.Call(mcp.MethodSetLevel, `{"level":"error"}`)
	eratest.WantError(t, p.Call(mcp.MethodInitialize, `{"protocolVersion":7}`), jsonrpc.InvalidParams)
	if got, want := whoami(), fmt.Sprintf(`tester %s roots:true level:"error" principal:""`, version); got != want {
		t.Errorf("after an invalid handshake: %s, want %s", got, want)
	}
	eratest.Want(t, p.Call(mcp.MethodInitialize, eratest.InitializeParams(mcp.Version20241105, "{}")), `"2024-11-05"`, "result", "protocolVersion")
	if got, want := whoami(), `tester 2024-11-05 roots:false level:"info" principal:""`; got != want {
		t.Errorf("after another handshake: %s, want %s", got, want)
	}
	// Both eras may share a connection. A modern request does not use the session.
	p.Version, p.Capabilities = mcp.LatestVersion, "{}"
	answer := p.Call(mcp.MethodToolsCall, `{"name":"whoami"}`)
	eratest.Want(t, answer, `"complete"`, "result", "resultType")
	eratest.Want(t, answer, `"tester 2026-07-28 roots:false level:\"\" principal:\"\""`, "result", "content", "0", "text")
}

func testBatch(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newServer(nil), version, "{}")
	params := `{"name":"echo","arguments":{"say":"x"}}`
	if version.Modern() {
		params = p.WithMeta(params)
	}
	request := `{"jsonrpc":"2.0","id":"b%d","method":"tools/call","params":` + params + `}`
	p.Send("[" + fmt.Sprintf(request, 1) + "," + fmt.Sprintf(request, 2) + "]")
	answer := p.Next()
	p.ExpectSilence()
	if version != mcp.Version20250326 {
		eratest.WantError(t, answer, jsonrpc.InvalidRequest)
		return
	}
	if answer[0] != '[' || eratest.Element(answer, 1) == "" || eratest.Element(answer, 2) != "" {
		t.Errorf("the response to a batch is %s", answer)
	}
	for _, refused := range []string{
		`[{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + eratest.InitializeParams(version, "{}") + `}]`,
		`[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}]`,
		`[]`,
	} {
		p.Send(refused)
		eratest.WantError(t, p.Next(), jsonrpc.InvalidRequest)
	}
}

func testPing(t *testing.T, version mcp.Version) {
	p := eratest.Connect(t, newServer(nil))
	p.Version = version
	answer := p.Call(mcp.MethodPing, "")
	if version.Modern() {
		eratest.WantError(t, answer, jsonrpc.MethodNotFound)
		return
	}
	eratest.Want(t, answer, "{}", "result") // even before the handshake
}

func testMethodsOfOneEra(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newServer(nil), version, "{}")
	methods := []string{mcp.MethodDiscover, mcp.MethodSubscriptionsListen}
	if version.Modern() {
		methods = []string{mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe}
	}
	for _, method := range append(methods, "tasks/result", "tasks/list", "unknown/method", mcp.MethodElicit, "tools/Call") {
		eratest.WantError(t, p.Call(method, ""), jsonrpc.MethodNotFound)
	}
	// An unknown notification is dropped.
	p.Send(`{"jsonrpc":"2.0","method":"notifications/unheard"}`, `{"jsonrpc":"2.0","method":"tools/call"}`)
	p.ExpectSilence()
}

func testServerCapabilities(t *testing.T, version mcp.Version) {
	declared := &mcp.ServerCapabilities{
		Tools: &mcp.ToolsCapability{}, Completions: &mcp.EmptyObject{}, Tasks: []byte(`{"list":{}}`),
		Experimental: map[string]json.RawMessage{"x": json.RawMessage(`{"y":1}`)}, Extensions: map[string]json.RawMessage{"org.example/x": json.RawMessage(`{}`)},
	}
	p := eratest.Connect(t, newServer(&server.Options{Capabilities: declared}))
	p.Version = version
	var has string
	if version.Modern() {
		has = eratest.At(p.Call(mcp.MethodDiscover, ""), "result", "capabilities")
	} else {
		answer := p.Call(mcp.MethodInitialize, eratest.InitializeParams(version, "{}"))
		has = eratest.At(answer, "result", "capabilities")
		eratest.WantIf(t, answer, version >= mcp.Version20250618, "result", "serverInfo", "title")
		eratest.WantIf(t, answer, version >= mcp.Version20251125, "result", "serverInfo", "icons")
		eratest.WantIf(t, answer, version >= mcp.Version20251125, "result", "serverInfo", "description")
		eratest.WantIf(t, answer, version >= mcp.Version20251125, "result", "serverInfo", "websiteUrl")
	}
	eratest.WantIf(t, has, true, "tools")
	eratest.WantIf(t, has, true, "experimental", "x", "y")
	eratest.WantIf(t, has, version >= mcp.Version20250326, "completions")
	eratest.WantIf(t, has, version == mcp.Version20251125, "tasks")
	eratest.WantIf(t, has, true, "extensions", "org.example/x")
}

// TestLinksAreIndependent checks that links do not share a session.
func TestLinksAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		eratest.Open(t, s, mcp.LatestLegacyVersion, "{}")
		stranger := eratest.Connect(t, s)
		eratest.WantError(t, stranger.Call(mcp.MethodToolsList, ""), jsonrpc.InvalidParams)
	})
}

// TestSharedLink checks that a link of several clients has no session and accepts modern requests
// only.
func TestSharedLink(t *testing.T) {
	h := newServer(nil).Bind(transport.Link{Input: t.Context(), Shared: true})
	handle := func(method, params string) (string, error) {
		req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, json.RawMessage(params))
		if err != nil {
			t.Fatal(err)
		}
		var reply jsonrpc.Reply
		err = h.Handle(t.Context(), nil, req, &reply)
		return string(reply.Buf), err
	}
	_, err := handle(mcp.MethodInitialize, eratest.InitializeParams(mcp.LatestLegacyVersion, "{}"))
	if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.InvalidRequest {
		t.Errorf("initialize on a shared link: %v", err)
	}
	if _, err := handle(mcp.MethodToolsList, "{}"); err == nil {
		t.Error("a legacy request on a shared link succeeded")
	}
	modern := &eratest.Peer{T: t, Version: mcp.LatestVersion, Capabilities: "{}"}
	if list, err := handle(mcp.MethodToolsList, modern.WithMeta("{}")); err != nil || eratest.At(list, "resultType") != `"complete"` {
		t.Errorf("a modern request on a shared link: %s, %v", list, err)
	}
}
