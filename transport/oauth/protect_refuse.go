package oauth

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Codes of errors in challenges. RFC 6750, section 3.1; RFC 9449, sections 7.1 and 9.
const (
	codeInvalidRequest    = "invalid_request"
	codeInvalidToken      = "invalid_token"
	codeInsufficientScope = "insufficient_scope"
	codeInvalidProof      = "invalid_dpop_proof"
	codeUseNonce          = "use_dpop_nonce"
)

// A refusal is why a request is not let through.
type refusal struct {
	status int
	code   string // of the challenge; "" when the request has shown nothing
	dpop   bool   // it is about the scheme DPoP
	nonce  string // for the next proof
	scopes []string
	err    error // what the client is told, unless the status is 503
}

// Error is what the client is told.
func (r *refusal) Error() string { return r.err.Error() }

// refuse answers a request that is not let through. The preflight of a page, which never
// has credentials, is answered as the page's origin deserves.
func (p *protector) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if p.guard.Share(w, r, http.MethodGet, http.MethodPost, http.MethodDelete) {
		return
	}
	why, ok := errors.AsType[*refusal](err)
	if !ok {
		why = &refusal{status: http.StatusServiceUnavailable, err: err}
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	if why.status == http.StatusServiceUnavailable {
		p.logFailure(why.err)
		header.Set("Retry-After", "5")
		edge.TurnAway(w, r, why.status, jsonrpc.Busy, "tokens cannot be verified now")
		return
	}
	if why.nonce != "" {
		header.Set("DPoP-Nonce", why.nonce)
	}
	if why.status != http.StatusBadRequest {
		for _, challenge := range p.challenges(why) {
			header.Add("WWW-Authenticate", string(challenge.Append(nil)))
		}
	}
	edge.TurnAway(w, r, why.status, jsonrpc.InvalidRequest, why.err.Error())
}

// logFailure logs why a token could not be verified. Strangers can make that happen as often
// as they like, so it is logged once a second at most.
func (p *protector) logFailure(err error) {
	now, last := time.Now().Unix(), p.failed.Load()
	if now != last && p.failed.CompareAndSwap(last, now) {
		p.options.Logger.Error("oauth: a token could not be verified", "error", err)
	}
}

// challenges say which schemes there are, first the one that the refusal is about.
func (p *protector) challenges(why *refusal) []Challenge {
	about := Challenge{Scheme: "Bearer", Params: map[string]string{"resource_metadata": p.metadata.url}}
	if why.code != "" {
		about.Params["error"] = why.code
		about.Params["error_description"] = why.err.Error()
	}
	scopes := why.scopes
	if scopes == nil {
		scopes = p.options.Scopes
	}
	if len(scopes) > 0 {
		about.Params["scope"] = strings.Join(scopes, " ")
	}
	if why.dpop || p.proofs.required {
		about.Scheme = "DPoP"
		about.Params["algs"] = proofAlgorithmNames
		return []Challenge{about}
	}
	if !p.proofs.offered {
		return []Challenge{about}
	}
	return []Challenge{about, {Scheme: "DPoP", Params: map[string]string{"algs": proofAlgorithmNames}}}
}
