package mcp

import (
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A DecodeError says why JSON cannot be decoded to a type of this package.
type DecodeError struct {
	// Pointer is a JSON Pointer to the invalid value (RFC 6901); "" is the whole value.
	Pointer string
	// Expected and Got describe values, such as "a string". Expected is empty if the text is not
	// JSON or repeats a member; Got then describes the error.
	Expected, Got string
}

// Error contains the pointer, the expected value and the actual value.
func (e *DecodeError) Error() string {
	var text strings.Builder
	text.WriteString("mcp: ")
	if e.Pointer != "" {
		text.WriteString("at " + truncate(e.Pointer) + ": ")
	}
	if e.Expected != "" {
		text.WriteString("expected " + e.Expected + ", got ")
	}
	text.WriteString(truncate(e.Got))
	return text.String()
}

// maxShown bounds the part of a peer's text in an error message, in bytes.
const maxShown = 256

func truncate(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}

// prefixPointer adds the pointer of an enclosing value to a *DecodeError.
func prefixPointer(pointer string, err error) error {
	if err == nil {
		return nil
	}
	var inner *DecodeError
	if !errors.As(err, &inner) {
		return err
	}
	return &DecodeError{Pointer: pointer + inner.Pointer, Expected: inner.Expected, Got: inner.Got}
}

// objectError says why data cannot be read as an object.
func objectError(data []byte, err error) error {
	if kind := jsonscan.KindOf(data); kind != jsonscan.Object && kind != jsonscan.Invalid && kind != jsonscan.EOF {
		return &DecodeError{Expected: "an object", Got: kind.String()}
	}
	return syntaxError(err)
}

func syntaxError(err error) error { return &DecodeError{Got: err.Error()} }

func gotKind(raw []byte) string {
	if raw == nil {
		return "nothing"
	}
	return jsonscan.KindOf(raw).String()
}

// decodeError converts an error of the JSON package.
func decodeError(err error) error {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		pointer := string(semantic.JSONPointer)
		if semantic.Err != nil {
			if inner, ok := errors.AsType[*DecodeError](semantic.Err); ok {
				return prefixPointer(pointer, inner)
			}
		}
		return &DecodeError{Pointer: pointer, Expected: expectedJSON(semantic.GoType), Got: gotValue(semantic)}
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &DecodeError{Pointer: string(syntactic.JSONPointer), Got: syntactic.Err.Error()}
	}
	return syntaxError(err)
}

func gotValue(err *json.SemanticError) string {
	var kind string
	switch err.JSONKind {
	case 'n':
		kind = jsonscan.Null.String()
	case 't', 'f':
		kind = jsonscan.Bool.String()
	case '"':
		kind = jsonscan.String.String()
	case '0':
		kind = jsonscan.Number.String()
	case '{':
		kind = jsonscan.Object.String()
	case '[':
		kind = jsonscan.Array.String()
	default:
		kind = "something else"
	}
	if err.Err != nil {
		kind += " (" + err.Err.Error() + ")"
	}
	return kind
}

// expectedJSON describes the JSON that a Go type is decoded from.
func expectedJSON(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return expectedJSON(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string in base64"
		}
		return "an array"
	default:
		return "an object"
	}
}

// Error codes of MCP, in addition to the error codes of JSON-RPC.
const (
	// CodeResourceNotFound answers a read of a resource that does not exist; data has its uri.
	// 2026-07-28 uses invalid params instead. Use [IsResourceNotFound] to recognize both.
	CodeResourceNotFound jsonrpc.Code = -32002
	// CodeHeaderMismatch: an HTTP header contradicts the body (2026-07-28).
	CodeHeaderMismatch jsonrpc.Code = -32020
	// CodeMissingClientCapability: the call needs a capability that the client has not declared;
	// data.requiredCapabilities names it (2026-07-28).
	CodeMissingClientCapability jsonrpc.Code = -32021
	// CodeUnsupportedVersion: data.supported lists the supported versions (2026-07-28).
	CodeUnsupportedVersion jsonrpc.Code = -32022
	// CodeNotFound: what the request names does not exist; data.kind is "event" or "subscription"
	// (SEP-3415).
	CodeNotFound jsonrpc.Code = -32023
	// CodeForbidden: the principal may not do this, or not any more (SEP-3415).
	CodeForbidden jsonrpc.Code = -32024
	// CodeResourceExhausted: a limit of the server is reached; data.limit names it (SEP-3415).
	CodeResourceExhausted jsonrpc.Code = -32025
	// CodeUnsupported: the request asks for an option that is not supported here;
	// data.feature names it (SEP-3415).
	CodeUnsupported jsonrpc.Code = -32026
	// CodeCallbackEndpoint: a callback endpoint failed its verification or could not be reached;
	// data.reason says why (SEP-3415).
	CodeCallbackEndpoint jsonrpc.Code = -32027
	// CodeURLElicitationRequired: the call can be repeated after the user has visited the URLs in
	// data.elicitations (2025-11-25 only).
	CodeURLElicitationRequired jsonrpc.Code = -32042
	// CodeUserRejected answers a sampling request that the user has rejected (until 2025-11-25).
	CodeUserRejected jsonrpc.Code = -1
)

// ResourceNotFound returns the error for a resource that does not exist. It is sent with the code
// of the caller's version.
func ResourceNotFound(uri string) *jsonrpc.Error {
	data := append(jsonscan.AppendString([]byte(`{"uri":`), uri), '}')
	return &jsonrpc.Error{Code: CodeResourceNotFound, Message: "resource not found", Data: data}
}

// IsResourceNotFound reports whether err says that a resource does not exist, in any version: the
// code is -32002, or the code is -32602 (invalid params) and data has a uri.
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

// UnsupportedVersionData is the data of an error with the code
// [CodeUnsupportedVersion] (since 2026-07-28).
type UnsupportedVersionData struct {
	Supported []Version `json:"supported"`
	Requested Version   `json:"requested"`
	Extra     Extra     `json:",embed"`
}

// MissingClientCapabilityData is the data of an error with the code
// [CodeMissingClientCapability] (since 2026-07-28).
type MissingClientCapabilityData struct {
	// RequiredCapabilities are those that the client has to declare.
	RequiredCapabilities ClientCapabilities `json:"requiredCapabilities"`
	Extra                Extra              `json:",embed"`
}

// URLElicitationRequiredData is the data of an error with the code
// [CodeURLElicitationRequired] (2025-11-25 only).
type URLElicitationRequiredData struct {
	// Elicitations are the URLs to visit before the call is repeated.
	Elicitations []ElicitParams `json:"elicitations"`
	Extra        Extra          `json:",embed"`
}
