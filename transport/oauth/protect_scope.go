package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Require says whether the request of a call was granted scopes: for a guard, or a
// function that knows only while it runs what it needs. The error is a
// [*transport.ScopeError] to return; over streamable HTTP without a session it becomes a
// challenge, as that before the call does. Scopes that others imply count. A context that
// has not come through [Protect] has no scope.
func Require(ctx context.Context, scopes ...string) error {
	a := admissionOf(ctx)
	if a == nil {
		if len(scopes) == 0 {
			return nil
		}
		return &transport.ScopeError{Scopes: scopes}
	}
	return a.by.require(a.grant, scopes)
}

// require demands that a grant has scopes beside those of every request.
func (p *protector) require(grant *Grant, scopes []string) error {
	if p.has(grant, scopes) {
		return nil
	}
	all := slices.Clone(p.options.Scopes)
	for _, scope := range scopes {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	challenges := p.challenges(&refusal{code: codeInsufficientScope, scopes: all, dpop: grant.Confirmation != "", err: errCallScope})
	return &transport.ScopeError{Scopes: all, Challenge: string(challenges[0].Append(nil))}
}

var errCallScope = errors.New("the token lacks a scope that the call needs")

// admitCall is the [transport.Admission] of all admitted requests.
func (p *protector) admitCall(ctx context.Context, req *jsonrpc.Request) error {
	a := admissionOf(ctx)
	if p.options.CallScopes == nil || a == nil {
		return nil
	}
	if err := p.require(a.grant, p.options.CallScopes(req.Method, subject(req))); err != nil {
		return err
	}
	var all []string
	for _, uri := range listened(req) {
		all = append(all, p.options.CallScopes(mcp.MethodResourcesSubscribe, uri)...)
	}
	return p.require(a.grant, all)
}

// listened are the resources that a call listens to. What else its method does, no matter:
// a call of another one has no such member.
func listened(req *jsonrpc.Request) []string {
	raw := req.Member("notifications")
	var filter mcp.SubscriptionFilter
	if jsonscan.KindOf(raw) != jsonscan.Object || filter.UnmarshalJSON(raw) != nil {
		return nil // there is nothing to listen to, as the server says
	}
	return filter.ResourceSubscriptions
}

// has says whether a grant has scopes, or such as imply them.
func (p *protector) has(grant *Grant, scopes []string) bool {
	for _, scope := range scopes {
		if !slices.Contains(grant.Scopes, scope) && !slices.ContainsFunc(grant.Scopes, func(broad string) bool {
			return slices.Contains(p.implies[broad], scope)
		}) {
			return false
		}
	}
	return true
}

// closure adds to what each scope implies what that implies.
func closure(implies map[string][]string) map[string][]string {
	all := make(map[string][]string, len(implies))
	for broad := range implies {
		implied := []string{broad}
		for i := 0; i < len(implied); i++ {
			for _, scope := range implies[implied[i]] {
				if !slices.Contains(implied, scope) {
					implied = append(implied, scope)
				}
			}
		}
		all[broad] = implied
	}
	return all
}

// subject is the name of what a call is for, "" if there is none.
func subject(req *jsonrpc.Request) string {
	switch req.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return text(req.Member("name"))
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return text(req.Member("uri"))
	case mcp.MethodComplete:
		if text(req.Member("ref", "type")) == "ref/prompt" {
			return text(req.Member("ref", "name"))
		}
		return text(req.Member("ref", "uri"))
	}
	return ""
}

// text is a string; what is none names nothing.
func text(raw json.RawMessage) string {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(raw)
}
