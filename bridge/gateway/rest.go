package gateway

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// RESTOptions configure [Gateway.REST]. The zero value is good.
type RESTOptions struct {
	// Title, Description and Version are those of the OpenAPI document. By default "Tools",
	// nothing and "1".
	Title, Description, Version string
	// URL is where the handler is reached, for the document. By default it is where the
	// document is.
	URL string
}

// REST has tools called by the names that callers over MCP see, and describes them:
//
//	GET  /tools         {"tools":[…]}, as MCP's tools/list has them
//	POST /tools/call    {"name":"…","arguments":{…}}: the CallToolResult as it came
//	POST /tools/{name}  the arguments, or no body for none: the tool's structured content
//	                    if it declares some, else the CallToolResult
//	GET  /openapi.json  OpenAPI 3.1 of the tools, with a path for each
//
// The paths are those after the place where the handler is mounted, by http.StripPrefix.
// Whoever asks is told of the tools that he may call. The document's operations have the
// tools' names as their operationId, and their schemas as they are, but for references within
// them.
//
// Errors are application/problem+json (RFC 9457). The last part of their type says what
// happened, as the outcome in an [Audit] does; error is what callers over MCP would be told.
// A failure that the tool itself reports is an answer like any other for /tools/call, and
// for /tools/{name} the problem tool_error (422), with the CallToolResult as its result.
// Other statuses:
//
//	400  the request is no call
//	403  the policy, or a person, does not allow the call
//	404  there is no such tool
//	409  what was approved is not what would run, or the call has a question to its caller
//	422  the server does not take the arguments
//	429  too many of the caller's calls wait for a person
//	502  the server is not there, or has answered with an error or with nothing sensible
//	503  the server, or this one, is busy; or nobody is there to approve the call
//	504  the server, or a person who was asked, has not answered in time
func (g *Gateway) REST(opts *RESTOptions) http.Handler {
	f := &restFace{gateway: g}
	if opts != nil {
		f.opts = *opts
	}
	return g.face(writeProblem, f.serve)
}

// A restFace is a face for clients of REST services.
type restFace struct {
	gateway *Gateway
	opts    RESTOptions
}

func (f *restFace) serve(w http.ResponseWriter, r *http.Request) {
	switch path := segments(r); {
	case slices.Equal(path, []string{"tools"}):
		if allows(w, r, writeProblem, http.MethodGet) {
			f.list(w, r)
		}
	case slices.Equal(path, []string{"openapi.json"}):
		if allows(w, r, writeProblem, http.MethodGet) {
			f.document(w, r)
		}
	case len(path) == 2 && path[0] == "tools":
		if allows(w, r, writeProblem, http.MethodPost) {
			f.post(w, r, path[1])
		}
	default:
		refuser(writeProblem).turnAway(w, r, http.StatusNotFound, "there is nothing here")
	}
}

func (f *restFace) list(w http.ResponseWriter, r *http.Request) {
	tools, failed := f.gateway.list(r.Context())
	if failed != nil {
		failed.write(w)
		return
	}
	out := []byte(`{"tools":[`)
	for i, t := range tools {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, t.raw...)
	}
	writeJSON(w, http.StatusOK, append(out, "]}"...))
}

func (f *restFace) post(w http.ResponseWriter, r *http.Request, name string) {
	body, ok := []byte("{}"), true
	if r.ContentLength != 0 || name == callSegment {
		body, ok = f.gateway.body(w, r, writeProblem)
	}
	if !ok {
		return
	}
	if name == callSegment {
		f.call(w, r, body)
		return
	}
	if err := checkObject(body); err != nil {
		writeProblem(w, http.StatusBadRequest, "expected the arguments, an object: "+err.Error())
		return
	}
	declares := f.gateway.directory.declares(name)
	result, failed := f.gateway.call(r.Context(), name, body)
	if failed != nil {
		failed.write(w)
		return
	}
	a, failed := readAnswer(result)
	switch {
	case failed != nil:
		failed.write(w)
	case a.isError:
		message := "the tool failed without saying why"
		if text := a.text(); text != nil {
			message = jsonscan.Unquote(text)
		}
		failed := &failure{kind: outcomeToolError, status: http.StatusUnprocessableEntity, message: message}
		failed.write(w, extension{"result", result})
	case declares && a.structured == nil:
		failed := &failure{kindMalformed, http.StatusBadGateway, "the tool declares structured content, and gave none; the call was executed", nil}
		failed.write(w, extension{"result", result})
	case declares:
		writeJSON(w, http.StatusOK, a.structured)
	default:
		writeJSON(w, http.StatusOK, result)
	}
}

// callSegment stands where a tool's name does in the path of the general call.
const callSegment = "call"

// call answers the general call.
func (f *restFace) call(w http.ResponseWriter, r *http.Request, body []byte) {
	name, arguments, problem := readCall(body)
	if problem != "" {
		writeProblem(w, http.StatusBadRequest, problem)
		return
	}
	result, failed := f.gateway.call(r.Context(), name, arguments)
	if failed != nil {
		failed.write(w)
		return
	}
	writeJSON(w, http.StatusOK, result)
}

// readCall reads the body of the general call. problem says what it should have been.
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

func checkObject(body []byte) error {
	_, err := jsonscan.ReadObject(body)
	return err
}
