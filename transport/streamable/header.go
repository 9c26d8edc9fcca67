package streamable

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/mirror"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Headers of the transport, in the form that net/http keeps them in.
const (
	headerVersion     = "Mcp-Protocol-Version"
	headerSession     = "Mcp-Session-Id"
	headerLastEventID = "Last-Event-Id"
)

// accepted is what a client takes for an answer.
type accepted struct{ json, events bool }

// acceptedBy reads Accept. A client must list both types; one that says nothing
// takes anything.
func acceptedBy(r *http.Request) accepted {
	lines := r.Header["Accept"]
	if len(lines) == 0 {
		return accepted{true, true}
	}
	var a accepted
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			item, _, _ = strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(item)) {
			case "application/json", "application/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.events = true
			case "*/*":
				a = accepted{true, true}
			}
		}
	}
	return a
}

// isLegacy says whether a header names a version that has sessions.
func isLegacy(version string) bool {
	v := mcp.Version(version)
	return v.Known() && !v.Modern()
}

// namesModern says whether a request is for a version without sessions. One that is
// not known must be newer.
func namesModern(header http.Header) bool {
	lines := header[headerVersion]
	return len(lines) > 0 && !isLegacy(lines[0])
}

// checkVersion compares the header with the version that a request says it speaks.
func checkVersion(header http.Header, claim json.RawMessage) error {
	switch lines := header[headerVersion]; {
	case len(lines) == 0:
		return mismatch("the header MCP-Protocol-Version is missing; expected " + excerpt(claim))
	case len(lines) > 1:
		return mismatch("the header MCP-Protocol-Version is given more than once")
	case !jsonscan.KeyIs(claim, lines[0]):
		return mismatch("the header MCP-Protocol-Version is " + jsonscan.Quote(lines[0]) + ", but the request is of version " + excerpt(claim))
	}
	return nil
}

// excerpt is what a request says, as far as it belongs into an error.
func excerpt(claim json.RawMessage) string { return jsonscan.Quote(jsonscan.Unquote(claim)) }

func mismatch(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: message}
}

// describesItself says whether a request has what all of its version must have, as far
// as it shows at once. What lacks is said by the server.
func describesItself(req *jsonrpc.Request, claim json.RawMessage) bool {
	info := req.Member("_meta", mcp.MetaClientInfo)
	return jsonscan.KindOf(claim) == jsonscan.String &&
		jsonscan.KindOf(req.Member("_meta", mcp.MetaClientCapabilities)) == jsonscan.Object &&
		(info == nil || jsonscan.KindOf(info) == jsonscan.Object)
}

// checkHeaders holds what headers say against the request. MCP 2026-07-28,
// basic/transports/streamable-http, "Server Validation".
func (e *Endpoint) checkHeaders(header http.Header, req *jsonrpc.Request, claim json.RawMessage) error {
	if err := checkVersion(header, claim); err != nil {
		return err
	}
	if version := mcp.Version(header[headerVersion][0]); !version.Known() || !version.Modern() {
		return nil // the server refuses the version
	}
	lines := func(name string) []string { return header[name] }
	if err := mirror.CheckStandard(lines, req); err != nil {
		return mismatch(err.Error())
	}
	if req.Method != mcp.MethodToolsCall {
		return nil
	}
	params, err := e.mirrored.params(req)
	if err != nil || params == nil {
		return err
	}
	if err := params.Check(lines, req.Member("arguments")); err != nil {
		return mismatch(err.Error())
	}
	return nil
}

// schemas is a server that knows the input schemas of its tools.
type schemas interface {
	InputSchema(tool string) json.RawMessage
}

// maxMirrored is how many tools are remembered that have parameters in headers.
const maxMirrored = 1024

// mirrored knows which parameters of tools are repeated in headers. Few tools
// have any.
type mirrored struct {
	server schemas  // nil: none are
	tools  sync.Map // name to mirroredTool
	known  atomic.Int64
}

type mirroredTool struct {
	schema json.RawMessage
	params *mirror.Params
}

// params finds the parameters of the tool that is called.
func (m *mirrored) params(req *jsonrpc.Request) (*mirror.Params, error) {
	name := req.Member("name")
	if m.server == nil || jsonscan.KindOf(name) != jsonscan.String {
		return nil, nil
	}
	tool := jsonscan.Unquote(name)
	schema := m.server.InputSchema(tool)
	if known, ok := m.tools.Load(tool); ok && sameBytes(known.(mirroredTool).schema, schema) {
		return known.(mirroredTool).params, nil
	}
	params, err := mirror.Compile(schema)
	if err != nil || params == nil {
		return nil, err
	}
	if m.known.Add(1) > maxMirrored {
		m.tools.Clear()
		m.known.Store(1)
	}
	m.tools.Store(tool, mirroredTool{schema, params})
	return params, nil
}

// sameBytes says whether both are one slice, not merely equal ones.
func sameBytes(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
