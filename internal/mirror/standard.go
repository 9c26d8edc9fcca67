package mirror

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// The names of the headers, in canonical form.
const (
	HeaderMethod = "Mcp-Method" // mirrors the method of every request
	HeaderName   = "Mcp-Name"   // mirrors what the request is for: see [Name]
	ParamPrefix  = "Mcp-Param-" // begins the headers of [Params]
)

// Name returns the value that Mcp-Name mirrors: the name of the tool or prompt,
// the URI of the resource, the id of the task. required is false when there is
// none: the method has no such header, or lacks the string that it should have.
func Name(req *jsonrpc.Request) (value string, required bool) {
	raw := req.Member(nameMember(req.Method))
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", false
	}
	return jsonscan.Unquote(raw), true
}

// nameMember is the member of params that a method's Mcp-Name mirrors, empty
// for methods without.
func nameMember(method string) string {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return "name"
	case mcp.MethodResourcesRead:
		return "uri"
	case "tasks/get", "tasks/update", "tasks/cancel": // of the tasks extension
		return "taskId"
	}
	return ""
}

// CheckStandard compares Mcp-Method and Mcp-Name with a request that has been
// decoded. header returns all lines of a header. A name in the header where the
// request should have one and has none is refused; that nobody has one is left
// to whoever looks at the params. The error is a *[HeaderError]. Nothing is
// allocated unless there is one, or the name comes in Base64.
func CheckStandard(header func(name string) []string, req *jsonrpc.Request) error {
	lines := header(HeaderMethod)
	if len(lines) != 1 {
		return wrongCount(HeaderMethod, lines, jsonscan.Quote(req.Method))
	}
	if method := trim(lines[0]); method != req.Method {
		return different(HeaderMethod, method, jsonscan.Quote(req.Method))
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

func different(header, value, want string) error {
	return &HeaderError{header, "is " + jsonscan.Quote(value) + ", but the body has " + want}
}
