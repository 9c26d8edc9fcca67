package mcp

import (
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A DecodeError says why JSON is not what a type of this package should be.
type DecodeError struct {
	// Pointer is where, a JSON Pointer (RFC 6901); "" is the whole.
	Pointer string
	// Expected and Got are in words: "a string", "an array". Expected is empty
	// when the text is not JSON or names a member twice, and Got says so.
	Expected, Got string
}

// Error says where, what was expected, and what came.
func (e *DecodeError) Error() string {
	var text strings.Builder
	text.WriteString("mcp: ")
	if e.Pointer != "" {
		text.WriteString("at " + cut(e.Pointer) + ": ")
	}
	if e.Expected != "" {
		text.WriteString("expected " + e.Expected + ", got ")
	}
	text.WriteString(cut(e.Got))
	return text.String()
}

// maxShown bounds what an error message shows of a peer's text.
const maxShown = 256

func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}

// within puts an error into the context of what encloses it.
func within(pointer string, err error) error {
	if err == nil {
		return nil
	}
	var inner *DecodeError
	if !errors.As(err, &inner) {
		return err
	}
	return &DecodeError{Pointer: pointer + inner.Pointer, Expected: inner.Expected, Got: inner.Got}
}

// escapePointer makes a name a part of a JSON Pointer.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
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

// decodeError puts an error of the JSON package into this package's words.
func decodeError(err error) error {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		pointer := string(semantic.JSONPointer)
		if semantic.Err != nil {
			if inner, ok := errors.AsType[*DecodeError](semantic.Err); ok {
				return within(pointer, inner)
			}
		}
		return &DecodeError{Pointer: pointer, Expected: expected(semantic.GoType), Got: got(semantic)}
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &DecodeError{Pointer: string(syntactic.JSONPointer), Got: syntactic.Err.Error()}
	}
	return syntaxError(err)
}

func got(err *json.SemanticError) string {
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

// expected is what JSON a Go type is decoded from.
func expected(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
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
