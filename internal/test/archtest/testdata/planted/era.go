// Package planted breaks the rule that eras stay in their homes. 2026-07-28 in a
// comment is fine.
package planted

import "github.com/dovetail-go/dovetail/mcp"

const version = "2026-07-28" // want "contains the protocol version 2026-07-28"

type params struct {
	State string `json:"requestState"` // want `names "requestState"`
}

func classify(method string, v mcp.Version) bool {
	switch method {
	case "initialize": // want `names "initialize"`
		return false
	case mcp.MethodInitialize: // want "uses mcp.MethodInitialize"
		return false
	case "subscriptions/listen": // want `names "subscriptions/listen"`
		return true
	}
	if v == mcp.LatestVersion { // want "uses mcp.LatestVersion"
		return true
	}
	return v.Modern() // want "with Modern"
}

var envelope = []byte(`{"resultType":"complete"}`) // want `names "resultType"`

var greeting = `{"method":"initialize"}` // want `names "initialize"`
