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

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// RunnerOptions configure a [Runner]. The zero value is good for a server of the operator's, at a
// [Server] that needs no token.
type RunnerOptions struct {
	// Params describe how the server is launched. The zero value means a server of the
	// operator's.
	Params ServerParams
	// Token is one of the tool server's, if it needs one.
	Token string
	// HTTPClient makes the requests. Its CheckRedirect is replaced: redirects are errors. Default http.DefaultClient.
	HTTPClient *http.Client
	// MaxAnswer is the size of the longest answer, in bytes. Default 64 MiB.
	MaxAnswer int64
}

// A Runner calls the tools of one server through a [Server], or through a ToolServer of ipybox. It
// may be used concurrently. Formatting it redacts the token.
type Runner struct {
	base   *url.URL
	server string
	params json.RawMessage
	token  func() string // a function, because reflection cannot look into one
	http   http.Client
	most   int64
}

// NewRunner returns a runner for a server, through the tool server at a URL such as
// "http://localhost:8900". The error describes a URL or params that are wrong. opts may be nil.
func NewRunner(baseURL, server string, opts *RunnerOptions) (*Runner, error) {
	var o RunnerOptions
	if opts != nil {
		o = *opts
	}
	base, err := url.Parse(baseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("toolserver: the URL of a tool server begins with http:// or https://, and has a host")
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
	client := *cmp.Or(o.HTTPClient, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Runner{
		base: base, server: server, params: params, http: client,
		token: func() string { return o.Token }, most: cmp.Or(o.MaxAnswer, 64<<20),
	}, nil
}

// Format prints the server's name and the tool server's host.
func (r *Runner) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s at %s", r.server, r.base.Host)
}

// Run calls a tool. The arguments become a JSON object: a map or a struct, a json.RawMessage
// as it stands, nil for none. The result is the tool's structured content, else its text as a
// JSON string, else null. An error is a *[Error]. Only ctx bounds the call, waiting for
// a person included, and ends it.
func (r *Runner) Run(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	answer, err := r.run(ctx, "/run", "", tool, arguments)
	return answer.Result, err
}

// RunRaw is [Runner.Run] with all that the tool has given. A failure that the tool reports is
// no error then. Original tool servers do not know this.
func (r *Runner) RunRaw(ctx context.Context, tool string, arguments any) (*mcp.CallToolResult, error) {
	answer, err := r.run(ctx, "/run", "full=1", tool, arguments)
	if err != nil {
		return nil, err
	}
	result := new(mcp.CallToolResult)
	if err := result.UnmarshalJSON(answer.Result); err != nil {
		return nil, r.failed(tool, &Error{Message: "the answer is not all that the tool has given", Err: err})
	}
	return result, nil
}

// RunAs calls a tool as [Runner.Run] does and decodes its result. Names of members are matched
// exactly. A result that is text is decoded as JSON, unless T takes a string.
func RunAs[T any](ctx context.Context, r *Runner, tool string, arguments any) (T, error) {
	var value T
	result, err := r.Run(ctx, tool, arguments)
	if err != nil {
		return value, err
	}
	err = jsonv2.Unmarshal(result, &value)
	if err != nil && jsonscan.KindOf(result) == jsonscan.String {
		var said T
		if jsonv2.Unmarshal([]byte(jsonscan.Unquote(result)), &said) == nil {
			return said, nil
		}
	}
	if err != nil {
		return value, r.failed(tool, &Error{Message: "the tool has run, and its result is none of the expected type", Err: err})
	}
	return value, nil
}

// Approve asks whether a call may be made, and makes none. A later run is asked about again. The
// error says why the call may not be made.
func (r *Runner) Approve(ctx context.Context, tool string, arguments any) error {
	answer, err := r.run(ctx, "/approve", "", tool, arguments)
	if err == nil && !answer.Approved {
		err = r.failed(tool, &Error{Message: "the answer is not that of a tool server"})
	}
	return err
}

// Reset stops the servers that this caller has launched; the next run starts its server again.
func (r *Runner) Reset(ctx context.Context) error {
	_, err := r.send(ctx, http.MethodPut, "/reset", "", nil)
	if err != nil {
		return r.failed("", err)
	}
	return nil
}

// A runAnswer is what a tool server has answered.
type runAnswer struct {
	Result   json.RawMessage
	Approved bool
}

func (r *Runner) run(ctx context.Context, route, query, tool string, arguments any) (runAnswer, error) {
	encoded, err := encodeObject(arguments)
	if err != nil {
		return runAnswer{}, r.failed(tool, &Error{Message: "the arguments cannot be sent", Err: err})
	}
	body := slices.Concat([]byte(`{"server_name":`), jsonscan.AppendString(nil, r.server), []byte(`,"server_params":`), r.params,
		[]byte(`,"tool_name":`), jsonscan.AppendString(nil, tool), []byte(`,"tool_args":`), encoded, []byte{'}'})
	raw, failed := r.send(ctx, http.MethodPost, route, query, body)
	if failed != nil {
		return runAnswer{}, r.failed(tool, failed)
	}
	answer, failed := r.read(route, tool, raw)
	if failed != nil {
		return runAnswer{}, r.failed(tool, failed)
	}
	return answer, nil
}

// encodeObject makes an object of arguments.
func encodeObject(arguments any) (json.RawMessage, error) {
	encoded, ok := arguments.(json.RawMessage)
	if arguments == nil || ok && encoded == nil {
		return json.RawMessage("{}"), nil
	}
	if !ok {
		var err error
		if encoded, err = json.Marshal(arguments); err != nil {
			return nil, err
		}
	}
	if kind := jsonscan.KindOf(encoded); kind != jsonscan.Object {
		return nil, fmt.Errorf("expected an object, found %v", kind)
	}
	return encoded, jsonscan.Valid(encoded)
}

// send makes a request and returns the body of an answer with status 200.
func (r *Runner) send(ctx context.Context, method, route, query string, body []byte) ([]byte, *Error) {
	at := r.base.JoinPath(route)
	at.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Message: "there is no such request", Err: err}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token := r.token(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, &Error{Message: "the tool server was not reached, or has not answered", Err: err}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, r.most+1))
	switch {
	case err != nil:
		return nil, &Error{Message: "the answer broke off", Status: response.StatusCode, Err: err}
	case int64(len(answer)) > r.most:
		return nil, &Error{Message: fmt.Sprintf("the answer has more than %d bytes", r.most), Status: response.StatusCode}
	case response.StatusCode != http.StatusOK:
		return nil, &Error{Message: detailOf(answer, response.Status), Status: response.StatusCode}
	}
	return answer, nil
}

// detailOf is what a refusal says.
func detailOf(answer []byte, otherwise string) string {
	members, err := jsonscan.ReadObject(answer)
	if detail := members.Get("detail"); err == nil && jsonscan.KindOf(detail) == jsonscan.String {
		return jsonscan.Unquote(detail)
	}
	return otherwise
}

// read reads an answer. One that has neither of what it should is none.
func (r *Runner) read(route, tool string, raw []byte) (a runAnswer, failed *Error) {
	members, err := jsonscan.ReadObject(raw)
	if said := members.Get("error"); err == nil && jsonscan.KindOf(said) == jsonscan.String {
		failed = &Error{Message: jsonscan.Unquote(said)}
		failed.Kind = r.kindOf(tool, members.Get("type"), failed.Message)
		return a, failed
	}
	a = runAnswer{members.Get("result"), string(members.Get("approved")) == "true"}
	if err != nil || route == "/run" && a.Result == nil {
		return a, &Error{Message: "the answer is not that of a tool server", Err: err}
	}
	return a, nil
}
