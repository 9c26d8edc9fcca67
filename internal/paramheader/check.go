package paramheader

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// The names of the headers, in canonical form.
const (
	HeaderMethod = "Mcp-Method" // mirrors the method of every request
	HeaderName   = "Mcp-Name"   // mirrors the subject of the request: see [Name]
	ParamPrefix  = "Mcp-Param-" // begins the headers of [Params]
)

// Name returns the value of Mcp-Name: the name of the tool or prompt, the URI of the
// resource, or the id of the task. ok is false if the method has no such header, or the
// params lack the string.
func Name(req *jsonrpc.Request) (value string, ok bool) {
	raw := req.Member(nameMember(req.Method))
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", false
	}
	return jsonscan.Unquote(raw), true
}

// nameMember returns the member of params that Mcp-Name repeats, or "" for methods without
// the header.
func nameMember(method string) string {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return "name"
	case mcp.MethodResourcesRead:
		return "uri"
	case "tasks/get", "tasks/update", "tasks/cancel": // tasks extension
		return "taskId"
	}
	return ""
}

// CheckStandard compares Mcp-Method and Mcp-Name with a decoded request. header returns all
// lines of a header. It refuses a name in the header that the request lacks. If both lack
// it, the caller checks the params. The error is a *[HeaderError]. It allocates no memory
// unless it returns an error or the name is in Base64.
func CheckStandard(header func(name string) []string, req *jsonrpc.Request) error {
	lines := header(HeaderMethod)
	if len(lines) != 1 {
		return wrongCount(HeaderMethod, lines, jsonscan.Quote(req.Method))
	}
	if method := trim(lines[0]); method != req.Method {
		return mismatch(HeaderMethod, method, jsonscan.Quote(req.Method))
	}
	member := nameMember(req.Method)
	if member == "" {
		return nil
	}
	raw := req.Member(member)
	if jsonscan.KindOf(raw) == jsonscan.String {
		return checkValue(HeaderName, header(HeaderName), raw)
	}
	return checkAbsent(HeaderName, header(HeaderName), "params."+member)
}

func wrongCount(header string, lines []string, want string) error {
	if len(lines) == 0 {
		return &HeaderError{header, "is missing, expected " + want}
	}
	return &HeaderError{header, fmt.Sprintf("is given %d times, expected it once", len(lines))}
}

func mismatch(header, value, want string) error {
	return &HeaderError{header, "is " + jsonscan.Quote(value) + ", but the body has " + want}
}

// checkValue compares the lines of a header with a raw string, number or boolean.
func checkValue(header string, lines []string, raw []byte) error {
	if len(lines) != 1 {
		return wrongCount(header, lines, excerpt(raw))
	}
	value, err := Decode(lines[0])
	if err != nil {
		return &HeaderError{header, "has a " + err.Error()}
	}
	var same bool
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		same = jsonscan.KeyIs(raw, value)
	case jsonscan.Number:
		want, ok := parseInteger(raw)
		if !ok {
			return &HeaderError{header, "mirrors " + excerpt(raw) + ", expected an integer from -(2^53-1) to 2^53-1"}
		}
		got, ok := parseInteger([]byte(value))
		same = ok && got == want
	default:
		same = string(raw) == value
	}
	if !same {
		return mismatch(header, value, excerpt(raw))
	}
	return nil
}

// checkAbsent refuses a header without a value in the body.
func checkAbsent(header string, lines []string, what string) error {
	if len(lines) == 0 {
		return nil
	}
	return &HeaderError{header, "is " + jsonscan.Quote(lines[0]) + ", but the body has no value for " + what}
}

// excerpt returns a raw value for an error.
func excerpt(raw []byte) string {
	if jsonscan.KindOf(raw) == jsonscan.String {
		return jsonscan.Quote(jsonscan.Unquote(raw))
	}
	const most = 64
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// HeaderError is a header that differs from the body. A peer gets it as a JSON-RPC error
// with the code of a header mismatch.
type HeaderError struct {
	Header  string // canonical name
	Problem string // what came and what was expected: "is missing, expected …"
}

func (e *HeaderError) Error() string { return "header " + e.Header + " " + e.Problem }

// ValueError is a header value that [Decode] cannot decode.
type ValueError struct {
	Reason string // what was expected
}

func (e *ValueError) Error() string { return "malformed header value: " + e.Reason }

// AnnotationError is an annotation that makes a tool unusable over HTTP.
type AnnotationError struct {
	Pointer string // the annotated schema inside the input schema (RFC 6901)
	Reason  string // the rule that is broken
}

func (e *AnnotationError) Error() string {
	return annotation + " at " + jsonscan.Quote(e.Pointer) + ": " + e.Reason
}
