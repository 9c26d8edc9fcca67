package streamable

import (
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// MCP 2025-11-25, basic/authorization, "Runtime Insufficient Scope Errors".

// admit asks whoever authenticated the request about a call in it. One that may not
// be made has been answered.
func admit(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request) bool {
	err := transport.Admit(r.Context(), req)
	if err == nil {
		return true
	}
	challenge(w, err)
	refuseCall(w, status(err), req, asError(err))
	return false
}

// admitAll is admit for the calls of a batch, which is refused as a whole.
func admitAll(w http.ResponseWriter, r *http.Request, batch []jsonrpc.Message) bool {
	for _, msg := range batch {
		req, ok := msg.(*jsonrpc.Request)
		if !ok || req.IsNotification() {
			continue
		}
		if err := transport.Admit(r.Context(), req); err != nil {
			challenge(w, err)
			e := asError(err)
			edge.Refuse(w, status(err), e.Code, e.Message)
			return false
		}
	}
	return true
}

// challenge tells the client of a call that is refused for want of a scope how to get
// it. It comes before the status.
func challenge(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*transport.ScopeError](err); ok && e.Challenge != "" {
		w.Header().Add("WWW-Authenticate", e.Challenge)
	}
}
