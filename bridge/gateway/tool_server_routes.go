package gateway

import (
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

func (t *ToolServer) serve(w http.ResponseWriter, r *http.Request) {
	route, ok := map[string]struct {
		method string
		serve  http.HandlerFunc
	}{
		"/run":     {http.MethodPost, t.serveRun},
		"/approve": {http.MethodPost, t.serveApprove},
		"/reset":   {http.MethodPut, t.serveReset},
		"/status":  {http.MethodGet, serveStatus},
	}[r.URL.Path]
	switch {
	case !ok:
		refuser(writeDetail).turnAway(w, r, http.StatusNotFound, "Not Found")
	case allows(w, r, writeDetail, route.method):
		route.serve(w, r)
	}
}

func serveStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

func (t *ToolServer) serveReset(w http.ResponseWriter, r *http.Request) {
	edge.AbandonBody(w, r)
	caller := transport.Principal(r.Context())
	if err := t.reset(r.Context(), func(principal string) bool { return principal == caller }); err != nil {
		writeDetail(w, http.StatusGatewayTimeout, "servers are still stopping")
		return
	}
	writeJSON(w, http.StatusOK, []byte(`{"reset":"success"}`))
}

func (t *ToolServer) serveRun(w http.ResponseWriter, r *http.Request) {
	q, ok := t.read(w, r)
	if !ok {
		return
	}
	result, err := t.run(r.Context(), q, false)
	if err == nil && r.URL.Query().Get("full") != "1" {
		result, err = reduceRun(result)
	}
	if err != nil {
		writeJSON(w, http.StatusOK, t.failed(q, err).appendJSON([]byte("{")))
		return
	}
	writeJSON(w, http.StatusOK, append(append([]byte(`{"result":`), result...), '}'))
}

func (t *ToolServer) serveApprove(w http.ResponseWriter, r *http.Request) {
	q, ok := t.read(w, r)
	if !ok {
		return
	}
	_, err := t.run(r.Context(), q, true)
	if !errors.Is(err, errOnlyAsked) {
		writeJSON(w, http.StatusOK, t.failed(q, err).appendJSON([]byte(`{"approved":false,`)))
		return
	}
	writeJSON(w, http.StatusOK, []byte(`{"approved":true}`))
}

// read reads what is to be run. If it is not ok, the request has been answered.
func (t *ToolServer) read(w http.ResponseWriter, r *http.Request) (q *runRequest, ok bool) {
	body, ok := t.gateway.body(w, r, writeDetail)
	if !ok {
		return nil, false
	}
	q, err := parseRun(body)
	if err != nil {
		writeDetail(w, http.StatusBadRequest, err.Error())
		return nil, false
	}
	return q, true
}

// reduceRun makes one JSON value of a result. The error is the tool's.
func reduceRun(result []byte) ([]byte, error) {
	var whole mcp.CallToolResult
	if err := whole.UnmarshalJSON(result); err != nil {
		return nil, &runError{kind: "upstream_malformed", message: "the server gave an answer that cannot be understood; the call was executed", err: err}
	}
	return bridge.ReduceValue(&whole)
}

// failed is what a caller is told of an error.
func (t *ToolServer) failed(q *runRequest, err error) *runError {
	told := runErrorOf(err)
	if told.kind == kindInternal {
		told.message += ", reference " + t.gateway.log("a run failed", "server", q.server, "tool", cut(q.tool), "error", err)
	}
	return told
}

func (e *runError) appendJSON(dst []byte) []byte {
	dst = jsonscan.AppendString(append(dst, `"error":`...), e.message)
	return append(jsonscan.AppendString(append(dst, `,"type":`...), string(e.kind)), '}')
}
