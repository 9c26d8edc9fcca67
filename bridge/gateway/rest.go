package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// RESTOptions configure [Gateway.REST]. The zero value is valid.
type RESTOptions struct {
	// Title, Description and Version are members of the info object in the OpenAPI document. Default "Tools", "" and
	// "1".
	Title, Description, Version string
	// URL is the base URL of the handler in the document. By default it is relative to the URL
	// of the document.
	URL string
}

// REST returns a handler that calls tools by their exposed names, and describes them:
//
//	GET  /tools         {"tools":[…]}, as in MCP's tools/list
//	POST /tools/call    {"name":"…","arguments":{…}}: the unchanged CallToolResult
//	POST /tools/{name}  the arguments, or no body for none: the structured content of a
//	                    tool with an output schema, the CallToolResult of any other
//	GET  /openapi.json  OpenAPI 3.1 with a path for each tool
//
// The paths are relative to the mount point; use http.StripPrefix. Lists and the document contain the tools that the
// caller may see. The operationId of an operation is the name of the tool. Schemas differ from the servers' schemas
// only in the spaces between tokens and in references within the schema.
//
// Errors are application/problem+json (RFC 9457). The last part of type is the outcome as in an
// [Audit]; error is the error that a caller over MCP would get. A failure that the tool reports
// is a normal result for /tools/call, and the problem tool_error (422) with the CallToolResult
// as result for /tools/{name}. Other statuses:
//
//	400  the request is malformed
//	403  a guard, such as a policy, or a person does not allow the call
//	404  there is no such tool, or the caller may not see it
//	409  the call differs from the approved one, or the tool asks its caller for input
//	422  the server refuses the arguments
//	429  too many of the caller's calls wait for approval
//	500  the call failed here; the detail has a reference to the log
//	502  the server is not available, or returned an error or an invalid result
//	503  the server or the gateway is busy, or no approver is available
//	504  the server or the approver did not answer in time
func (g *Gateway) REST(opts *RESTOptions) http.Handler {
	f := &restFrontend{gateway: g, opts: *cmp.Or(opts, new(RESTOptions))}
	return g.frontend.Handler(writeProblem, f.serve)
}

// A restFrontend serves the routes of [Gateway.REST].
type restFrontend struct {
	gateway *Gateway
	opts    RESTOptions
}

func (f *restFrontend) serve(w http.ResponseWriter, r *http.Request) {
	reject := frontend.Reject(writeProblem)
	switch path := segments(r); {
	case slices.Equal(path, []string{"tools"}):
		if reject.Allows(w, r, http.MethodGet) {
			f.list(w, r)
		}
	case slices.Equal(path, []string{"openapi.json"}):
		if reject.Allows(w, r, http.MethodGet) {
			f.document(w, r)
		}
	case len(path) == 2 && path[0] == "tools":
		if reject.Allows(w, r, http.MethodPost) {
			f.post(w, r, path[1])
		}
	default:
		reject.Unread(w, r, http.StatusNotFound, "there is no such route")
	}
}

func (f *restFrontend) list(w http.ResponseWriter, r *http.Request) {
	tools, failed := f.gateway.list(r.Context())
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	out := []byte(`{"tools":[`)
	for i, t := range tools {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, t.raw...)
	}
	frontend.WriteJSON(w, http.StatusOK, append(out, "]}"...))
}

func (f *restFrontend) post(w http.ResponseWriter, r *http.Request, name string) {
	body, ok := []byte("{}"), true
	if r.ContentLength != 0 || name == callSegment {
		body, ok = f.gateway.frontend.Body(w, r, writeProblem)
	}
	if !ok {
		return
	}
	if name == callSegment {
		f.call(w, r, body)
		return
	}
	if _, err := jsonscan.ReadObject(body); err != nil {
		writeProblem(w, http.StatusBadRequest, "expected the arguments, an object: "+err.Error())
		return
	}
	declares := f.declaresOutput(r.Context(), name)
	result, failed := f.callTool(r.Context(), name, body)
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	read, failed := readToolResult(result)
	switch {
	case failed != nil:
		writeFailure(w, failed, nil)
	case read.isError:
		message := "the tool failed without a message"
		if text := read.text(); text != nil {
			message = jsonscan.Unquote(text)
		}
		writeFailure(w, &frontend.Failure{Code: frontend.ToolError, Status: http.StatusUnprocessableEntity, Message: message}, result)
	case declares && read.structured == nil:
		writeFailure(w, &frontend.Failure{Code: frontend.Malformed, Status: http.StatusBadGateway, Message: "the tool has an output schema but returned no structured content; the call was executed"}, result)
	case declares:
		frontend.WriteJSON(w, http.StatusOK, read.structured)
	default:
		frontend.WriteJSON(w, http.StatusOK, result)
	}
}

// callSegment replaces the name of a tool in the path of the general call.
const callSegment = "call"

// call serves the general call.
func (f *restFrontend) call(w http.ResponseWriter, r *http.Request, body []byte) {
	name, arguments, problem := readCall(body)
	if problem != "" {
		writeProblem(w, http.StatusBadRequest, problem)
		return
	}
	result, failed := f.callTool(r.Context(), name, arguments)
	if failed != nil {
		writeFailure(w, failed, nil)
		return
	}
	frontend.WriteJSON(w, http.StatusOK, result)
}

// readCall reads the body of the general call. problem describes what is wrong.
func readCall(body []byte) (name string, arguments json.RawMessage, problem string) {
	const expected = `expected {"name":"…","arguments":{…}}`
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return "", nil, expected + ": " + err.Error()
	}
	for m := range members.All() {
		if !jsonscan.KeyIs(m.Key, "name") && !jsonscan.KeyIs(m.Key, "arguments") {
			return "", nil, expected + ", and no member " + jsonscan.Quote(m.Name())
		}
	}
	if jsonscan.KindOf(members.Get("name")) != jsonscan.String {
		return "", nil, expected + ": name must be a string"
	}
	arguments, problem = argumentsOf(&members)
	return jsonscan.Unquote(members.Get("name")), arguments, problem
}

// callTool calls a tool with the timeout of a call.
func (f *restFrontend) callTool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, *frontend.Failure) {
	ctx, cancel := f.gateway.frontend.Timeout(ctx)
	defer cancel()
	return f.gateway.call(ctx, name, arguments)
}

// declaresOutput reports whether a tool has an output schema. It returns false for a tool that the caller does not see.
func (f *restFrontend) declaresOutput(ctx context.Context, name string) bool {
	caller := &mcp.Caller{Principal: transport.Principal(ctx)}
	e, err := f.gateway.servers.Server.Catalog().LookupFor(ctx, caller, mcp.KindTool, name)
	if e == nil || err != nil {
		return false
	}
	t, ok := newTool(e.Definition.JSON())
	return ok && t.output() != nil
}

// problemType is the prefix of the type of each problem. It is a tag URI (RFC 4151), not a
// link.
const problemType = "tag:dovetail-go.github.io,2026:problem/"

// A problem is an error as in RFC 9457.
type problem struct {
	Type   string          `json:"type"`
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Error  *jsonrpc.Error  `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// writeFailure writes a problem. result may be nil.
func writeFailure(w http.ResponseWriter, f *frontend.Failure, result json.RawMessage) {
	p := problem{problemType + f.Code, strings.ReplaceAll(f.Code, "_", " "), f.Status, f.Message, f.Wire, result}
	if f.Status == http.StatusServiceUnavailable || f.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	frontend.Write(w, f.Status, "application/problem+json", frontend.Encode(p))
}

// writeProblem writes a problem for a malformed request.
func writeProblem(w http.ResponseWriter, status int, message string) {
	kind := strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
	writeFailure(w, &frontend.Failure{Code: kind, Status: status, Message: message}, nil)
}
