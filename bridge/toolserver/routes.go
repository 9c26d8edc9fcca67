package toolserver

import (
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	route, ok := map[string]struct {
		method string
		serve  http.HandlerFunc
	}{
		"/run":     {http.MethodPost, s.serveRun},
		"/approve": {http.MethodPost, s.serveApprove},
		"/reset":   {http.MethodPut, s.serveReset},
		"/status":  {http.MethodGet, serveStatus},
	}[r.URL.Path]
	reject := frontend.Reject(frontend.WriteDetail)
	switch {
	case !ok:
		reject.Unread(w, r, http.StatusNotFound, "Not Found")
	case reject.Allows(w, r, route.method):
		route.serve(w, r)
	}
}

func serveStatus(w http.ResponseWriter, _ *http.Request) {
	frontend.WriteJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

func (s *Server) serveReset(w http.ResponseWriter, r *http.Request) {
	edge.AbandonBody(w, r)
	caller := transport.Principal(r.Context())
	if err := s.reset(r.Context(), func(principal string) bool { return principal == caller }); err != nil {
		frontend.WriteDetail(w, http.StatusGatewayTimeout, "servers are still stopping")
		return
	}
	frontend.WriteJSON(w, http.StatusOK, []byte(`{"reset":"success"}`))
}

func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) {
	q, ok := s.read(w, r)
	if !ok {
		return
	}
	result, err := s.run(r.Context(), q, false)
	if err == nil && r.URL.Query().Get("full") != "1" {
		result, err = reduceRun(result)
	}
	if err != nil {
		frontend.WriteJSON(w, http.StatusOK, failureJSON(q, err, false))
		return
	}
	frontend.WriteJSON(w, http.StatusOK, append(append([]byte(`{"result":`), result...), '}'))
}

func (s *Server) serveApprove(w http.ResponseWriter, r *http.Request) {
	q, ok := s.read(w, r)
	if !ok {
		return
	}
	_, err := s.run(r.Context(), q, true)
	if failed, ok := errors.AsType[*frontend.Failure](err); !ok || failed.Kind != errOnlyAsked.Kind {
		frontend.WriteJSON(w, http.StatusOK, failureJSON(q, err, true))
		return
	}
	frontend.WriteJSON(w, http.StatusOK, []byte(`{"approved":true}`))
}

// read reads what is to be run. If it is not ok, the request has been answered.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (q *runRequest, ok bool) {
	body, ok := s.frontend.Body(w, r, frontend.WriteDetail)
	if !ok {
		return nil, false
	}
	q, err := parseRun(body)
	if err != nil {
		frontend.WriteDetail(w, http.StatusBadRequest, err.Error())
		return nil, false
	}
	return q, true
}

// reduceRun makes one JSON value of a result. The error is the tool's.
func reduceRun(result []byte) ([]byte, error) {
	var whole mcp.CallToolResult
	if err := whole.UnmarshalJSON(result); err != nil {
		return nil, frontend.MalformedAnswer
	}
	return bridge.ReduceValue(&whole)
}

// failureJSON returns the answer to a run that has failed, or to the question for one.
func failureJSON(q *runRequest, err error, asked bool) []byte {
	failed := failureOf(q, err)
	answer := struct {
		Approved *bool  `json:"approved,omitempty"`
		Error    string `json:"error"`
		Type     string `json:"type"`
	}{Error: failed.Message, Type: failed.Kind}
	if asked {
		answer.Approved = new(bool)
	}
	return frontend.Encode(answer)
}
