package mcp

import (
	"errors"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Codes of MCP beside those of JSON-RPC.
const (
	// CodeResourceNotFound answers a read of a resource that does not exist;
	// data carries its uri. 2026-07-28 uses invalid params instead, so compare
	// with [IsResourceNotFound].
	CodeResourceNotFound jsonrpc.Code = -32002
	// CodeHeaderMismatch: an HTTP header contradicts the body (2026-07-28).
	CodeHeaderMismatch jsonrpc.Code = -32020
	// CodeMissingClientCapability: the call needs a capability that the client
	// did not declare; data.requiredCapabilities names it (2026-07-28).
	CodeMissingClientCapability jsonrpc.Code = -32021
	// CodeUnsupportedVersion: data.supported lists the versions that would do
	// (2026-07-28).
	CodeUnsupportedVersion jsonrpc.Code = -32022
	// CodeURLElicitationRequired: the call can be repeated once the user has
	// visited the URLs in data.elicitations (2025-11-25 only).
	CodeURLElicitationRequired jsonrpc.Code = -32042
	// CodeUserRejected answers a sampling request that the user has refused
	// (until 2025-11-25).
	CodeUserRejected jsonrpc.Code = -1
)

// ResourceNotFound is the error of a read of a resource that does not exist. It
// goes out with the code of the caller's version.
func ResourceNotFound(uri string) *jsonrpc.Error {
	data := append(jsonscan.AppendString([]byte(`{"uri":`), uri), '}')
	return &jsonrpc.Error{Code: CodeResourceNotFound, Message: "resource not found", Data: data}
}

// IsResourceNotFound says whether an error is that of a resource that does not
// exist, in any version: -32002, or invalid params whose data names a uri.
func IsResourceNotFound(err error) bool {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Code == CodeResourceNotFound {
		return true
	}
	data, scanErr := jsonscan.ReadObject(e.Data)
	return e.Code == jsonrpc.InvalidParams && scanErr == nil && data.Get("uri") != nil
}
