package toolserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// RunnerOptions configure a [Runner]. The zero value is valid for an operator's server behind a
// [Server] that requires no token.
type RunnerOptions struct {
	// Params describe how the server is launched. The zero value means a server of the
	// operator.
	Params ServerParams
	// Token is a token of the tool server, "" for none.
	Token string
	// HTTPClient sends the requests. Its CheckRedirect is replaced: redirects are errors.
	// Default httptransport.NewClient(nil).
	HTTPClient *http.Client
	// MaxResponse is the maximum size of a response, in bytes. Default 64 MiB.
	MaxResponse int64
}

// A Runner calls the tools of one server through a [Server], or through a ToolServer of ipybox.
// It may be used concurrently. Formatting it redacts the token.
type Runner struct {
	base        *url.URL
	server      string
	params      json.RawMessage
	token       func() string // a function, so that formatting with reflection cannot print it
	http        http.Client
	maxResponse int64
}

// NewRunner returns a runner for a server, through the tool server at a URL such as
// "http://localhost:8900". The error reports an invalid URL or invalid params. opts may be nil.
func NewRunner(baseURL, server string, opts *RunnerOptions) (*Runner, error) {
	o := *cmp.Or(opts, new(RunnerOptions))
	base, err := url.Parse(baseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("toolserver: expected a URL that begins with http:// or https:// and has a host")
	}
	if !o.Params.isZero() {
		if _, err := o.Params.resolve(server); err != nil {
			return nil, fmt.Errorf("toolserver: RunnerOptions.Params: %w", err)
		}
	}
	params, err := json.Marshal(o.Params)
	if err != nil {
		return nil, err
	}
	client := *cmp.Or(o.HTTPClient, httptransport.NewClient(nil))
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Runner{
		base: base, server: server, params: params, http: client,
		token: func() string { return o.Token }, maxResponse: cmp.Or(o.MaxResponse, 64<<20),
	}, nil
}

// Format prints the name of the server and the host of the tool server.
func (r *Runner) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s at %s", r.server, r.base.Host)
}

// Run calls a tool. The arguments are encoded as a JSON object: a map or a struct; a
// json.RawMessage is sent unchanged, and nil means none. The result is the tool's structured
// content, or else its text as a JSON string, or else null. The error is a *[Error]. Run has no
// timeout of its own: it returns when the call ends or ctx does, including the time for
// approval.
func (r *Runner) Run(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	answer, err := r.request(ctx, "/run", "", tool, arguments)
	return answer.Result, err
}

// RunRaw is [Runner.Run] with the complete result. A failure that the tool reports is not an
// error. The ToolServer of ipybox does not support it.
func (r *Runner) RunRaw(ctx context.Context, tool string, arguments any) (*mcp.CallToolResult, error) {
	answer, err := r.request(ctx, "/run", "full=1", tool, arguments)
	if err != nil {
		return nil, err
	}
	result := new(mcp.CallToolResult)
	if err := result.UnmarshalJSON(answer.Result); err != nil {
		return nil, r.newError(tool, &Error{Message: "the response is not a CallToolResult", Err: err})
	}
	return result, nil
}

// RunAs calls a tool as [Runner.Run] does, and decodes its result. Names of members are matched
// exactly. A result that is a text is decoded as JSON, unless T is a string type. A time.Duration is a
// number of nanoseconds.
func RunAs[T any](ctx context.Context, r *Runner, tool string, arguments any) (T, error) {
	var value T
	result, err := r.Run(ctx, tool, arguments)
	if err != nil {
		return value, err
	}
	err = jsonvalue.Unmarshal(result, &value)
	if err != nil && jsonscan.KindOf(result) == jsonscan.String {
		var said T
		if jsonvalue.Unmarshal([]byte(jsonscan.Unquote(result)), &said) == nil {
			return said, nil
		}
	}
	if err != nil {
		return value, r.newError(tool, &Error{Message: "the tool has run, but its result does not have the expected type", Err: err})
	}
	return value, nil
}

// Approve asks for approval of a call without making it. A later run requires a new approval.
// The error says why the call is not approved.
func (r *Runner) Approve(ctx context.Context, tool string, arguments any) error {
	answer, err := r.request(ctx, "/approve", "", tool, arguments)
	if err == nil && !answer.Approved {
		err = r.newError(tool, &Error{Message: "the response is not from a tool server"})
	}
	return err
}

// Reset stops the servers that this caller has launched. The next run starts its server again.
func (r *Runner) Reset(ctx context.Context) error {
	_, err := r.send(ctx, http.MethodPut, "/reset", "", nil)
	if err != nil {
		return r.newError("", err)
	}
	return nil
}

// A runResponse is the response of a tool server.
type runResponse struct {
	Result   json.RawMessage
	Approved bool
}

func (r *Runner) request(ctx context.Context, route, query, tool string, arguments any) (runResponse, error) {
	encoded, err := encodeObject(arguments)
	if err != nil {
		return runResponse{}, r.newError(tool, &Error{Message: "invalid arguments", Err: err})
	}
	body := slices.Concat([]byte(`{"server_name":`), jsonscan.AppendString(nil, r.server), []byte(`,"server_params":`), r.params,
		[]byte(`,"tool_name":`), jsonscan.AppendString(nil, tool), []byte(`,"tool_args":`), encoded, []byte{'}'})
	raw, failed := r.send(ctx, http.MethodPost, route, query, body)
	if failed != nil {
		return runResponse{}, r.newError(tool, failed)
	}
	answer, failed := r.read(route, tool, raw)
	if failed != nil {
		return runResponse{}, r.newError(tool, failed)
	}
	return answer, nil
}

// encodeObject encodes arguments as a JSON object.
func encodeObject(arguments any) (json.RawMessage, error) {
	encoded, ok := arguments.(json.RawMessage)
	if arguments == nil || ok && encoded == nil {
		return json.RawMessage("{}"), nil
	}
	if !ok {
		var err error
		if encoded, err = jsonvalue.Marshal(arguments); err != nil {
			return nil, err
		}
	}
	if kind := jsonscan.KindOf(encoded); kind != jsonscan.Object {
		return nil, fmt.Errorf("expected an object, found %v", kind)
	}
	return encoded, jsonscan.Valid(encoded)
}

// send sends a request and returns the body of a response with the status 200.
func (r *Runner) send(ctx context.Context, method, route, query string, body []byte) ([]byte, *Error) {
	at := r.base.JoinPath(route)
	at.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Message: "invalid request", Err: err}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token := r.token(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, &Error{Message: "the tool server did not respond", Err: err}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, r.maxResponse+1))
	switch {
	case err != nil:
		return nil, &Error{Message: "the response is incomplete", Status: response.StatusCode, Err: err}
	case int64(len(answer)) > r.maxResponse:
		return nil, &Error{Message: fmt.Sprintf("the response has more than %d bytes", r.maxResponse), Status: response.StatusCode}
	case response.StatusCode != http.StatusOK:
		return nil, &Error{Message: refusalDetail(answer, response.Status), Status: response.StatusCode}
	}
	return answer, nil
}

// refusalDetail returns the detail of an error response.
func refusalDetail(response []byte, defaultText string) string {
	members, err := jsonscan.ReadObject(response)
	if detail := members.Get("detail"); err == nil && jsonscan.KindOf(detail) == jsonscan.String {
		return jsonscan.Unquote(detail)
	}
	return defaultText
}

// read reads a response.
func (r *Runner) read(route, tool string, raw []byte) (a runResponse, failed *Error) {
	members, err := jsonscan.ReadObject(raw)
	if said := members.Get("error"); err == nil && jsonscan.KindOf(said) == jsonscan.String {
		failed = &Error{Message: jsonscan.Unquote(said)}
		failed.Code = r.codeOf(tool, members.Get("type"), failed.Message)
		return a, failed
	}
	a = runResponse{members.Get("result"), string(members.Get("approved")) == "true"}
	if err != nil || route == "/run" && a.Result == nil {
		return a, &Error{Message: "the response is not from a tool server", Err: err}
	}
	return a, nil
}

// An Error is the error of a run without a result. errors.Is finds
// approval.Rejected or approval.Expired if a person said no or did not answer.
type Error struct {
	Server, Tool string
	// Code is the reason, "" if the tool server gives none: "rejected" (a person said no), "timeout" (no person answered
	// in time), "forbidden" (a guard refuses the call), "tool_error" (the tool reports a failure), "call_timeout" (the
	// call took too long), "unknown_server", "unknown_tool", "launch_refused" (the caller must not launch this server),
	// "conflict" (another server runs under that name), "start_failed" (the server could not be launched), "reset" (the
	// servers were reset during the run), "closed" (the tool server has been closed), "busy" (too many servers are
	// running) or an outcome of a gateway.Audit.
	Code string
	// Message is the message of the tool server, or describes a transport error.
	Message string
	// Status is the HTTP status of a response other than 200, else 0.
	Status int
	// Err is the transport error, nil if the tool server has responded. If it is not nil, the
	// tool may have been called.
	Err error
}

// Error returns the server, the tool, the message and Err.
func (e *Error) Error() string {
	message := e.Server
	if e.Tool != "" {
		message += "." + e.Tool
	}
	message += ": " + e.Message
	if e.Err != nil {
		message += ": " + e.Err.Error()
	}
	return message
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is approval.Rejected or approval.Expired and the error has that code.
func (e *Error) Is(target error) bool {
	switch target {
	case approval.Rejected:
		return e.Code == codeRejected
	case approval.Expired:
		return e.Code == codeApprovalExpired
	}
	return false
}

// newError adds the server and the tool to an error.
func (r *Runner) newError(tool string, e *Error) error {
	e.Server, e.Tool = r.server, tool
	return e
}

// codeOf returns the code of an error response. Older tool servers give none, but have these
// texts.
func (r *Runner) codeOf(tool string, given json.RawMessage, message string) string {
	if jsonscan.KindOf(given) == jsonscan.String {
		return jsonscan.Unquote(given)
	}
	switch about := "Approval request for " + r.server + "." + tool; message {
	case about + " rejected":
		return codeRejected
	case about + " expired":
		return codeApprovalExpired
	}
	return ""
}
