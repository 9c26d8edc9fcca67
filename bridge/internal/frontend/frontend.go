package frontend

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure a [Frontend]. A limit of 0 means the default.
type Options struct {
	// Authenticate wraps a handler so that it gets authenticated requests only.
	Authenticate func(http.Handler) http.Handler
	// CallTimeout limits a call, not counting the time that a person takes to approve it.
	// Default 5 minutes.
	CallTimeout time.Duration
	// Limits bounds the requests. Calls and CallsPerPrincipal count requests of any kind.
	// The limits of sessions and subscriptions have no effect.
	Limits transport.Limits
	// Logger logs errors whose cause callers do not get.
	Logger *slog.Logger
}

// A Frontend wraps handlers with authentication and limits, and counts requests. Its methods
// may be called concurrently.
type Frontend struct {
	opts  Options
	quota *quota.Quota
	bytes *bufpool.Budget // of large bodies
	idle  chan struct{}   // closed when the frontend is shut down and serves no request

	mu      sync.Mutex
	serving int
	closed  bool
}

// New returns a frontend.
func New(opts Options) *Frontend {
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 5*time.Minute)
	opts.Limits = opts.Limits.WithDefaults()
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	return &Frontend{
		opts: opts, quota: quota.New("requests", opts.Limits.Calls, opts.Limits.CallsPerPrincipal),
		bytes: bufpool.NewBudget(opts.Limits.HeldBytes),
		idle:  make(chan struct{}),
	}
}

// Handler returns a handler that passes on authenticated requests within the limits. It answers
// all others with reject.
func (f *Frontend) Handler(reject Reject, serve http.HandlerFunc) http.Handler {
	admitted := f.opts.Authenticate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t, ok := w.(*rejectWriter); ok {
			w = t.ResponseWriter
		}
		if !f.begin() {
			reject.Unread(w, r, http.StatusServiceUnavailable, "the gateway is shutting down")
			return
		}
		defer f.end()
		holder := quota.HolderOf(transport.Principal(r.Context()), "")
		if f.quota.Acquire(holder) != nil {
			w.Header().Set("Retry-After", "1")
			reject.Unread(w, r, http.StatusServiceUnavailable, "busy: too many requests are being served")
			return
		}
		defer f.quota.Release(holder)
		var body heldBody
		defer body.release()
		serve(w, r.WithContext(context.WithValue(r.Context(), heldBodyKey{}, &body)))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted.ServeHTTP(&rejectWriter{ResponseWriter: w, reject: reject}, r)
	})
}

// A heldBody is the charge of the body of one request, until the request has been answered.
type heldBody struct{ charge *bufpool.Charge }

type heldBodyKey struct{}

func (h *heldBody) release() { h.charge.Release() }

// Body reads the body of a request of [Frontend.Handler], once. If ok is false, it has answered
// the request.
func (f *Frontend) Body(w http.ResponseWriter, r *http.Request, reject Reject) (body []byte, ok bool) {
	held, ok := r.Context().Value(heldBodyKey{}).(*heldBody)
	if !ok {
		panic("frontend: Body of a request that did not come through Handler")
	}
	body, held.charge, ok = httpguard.ReadJSON(&rejectWriter{ResponseWriter: w, reject: reject}, r, f.opts.Limits.MessageBytes, f.bytes)
	return body, ok
}

// Timeout returns a context with the timeout of a call.
func (f *Frontend) Timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return deadline.With(ctx, f.opts.CallTimeout, context.DeadlineExceeded)
}

// log logs an error, and returns a reference to the log record, for the caller.
func (f *Frontend) log(message string, err error) (reference string) {
	reference = rand.Text()
	f.opts.Logger.Error(message, "error", err, "reference", reference)
	return reference
}

// Shutdown rejects new requests with the status 503 and waits until all others are answered. If
// ctx ends first, it returns its cause. It may be called more than once.
func (f *Frontend) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		if f.serving == 0 {
			close(f.idle)
		}
	}
	f.mu.Unlock()
	select {
	case <-f.idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *Frontend) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.serving++
	return true
}

func (f *Frontend) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.serving--; f.closed && f.serving == 0 {
		close(f.idle)
	}
}

// ToolParams returns the params of tools/call.
func ToolParams(name string, arguments json.RawMessage) json.RawMessage {
	params := jsonscan.AppendString(append(make([]byte, 0, len(name)+len(arguments)+32), `{"name":`...), name)
	return append(append(append(params, `,"arguments":`...), arguments...), '}')
}

// Serve calls a method of a server for the principal of ctx, and returns the encoded result.
func (f *Frontend) Serve(ctx context.Context, s *server.Server, method string, params json.RawMessage) (json.RawMessage, *Failure) {
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, params)
	if err != nil {
		return nil, FailureOf(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{Principal: transport.Principal(ctx)}, nil)
	result, err := s.Serve(ctx, &call)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // the cause distinguishes a timeout from a lost client
		}
		return nil, CallFailureOf(&call, err)
	}
	if raw, ok := result.(mcp.Raw); ok {
		return json.RawMessage(raw), nil
	}
	encoded, err := result.AppendJSON(nil)
	if err != nil {
		failed := FailureOf(err)
		failed.Message += ", reference " + f.log("encoding a result failed", err)
		return nil, failed
	}
	return encoded, nil
}

const (
	// maxShown is the maximum length of a displayed or logged name, in bytes.
	maxShown = 256
	// writeTimeout is the time in which a client must accept each piece of a response.
	writeTimeout = 10 * time.Second
	// writePiece is the size of such a piece, in bytes.
	writePiece = 64 << 10
)

// WriteJSON writes a response with a JSON text.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	Write(w, status, "application/json", body)
}

// Write writes a response in pieces, each with a deadline.
func Write(w http.ResponseWriter, status int, contentType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	w.WriteHeader(status)
	for len(body) > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // some writers do not support deadlines
		piece := body[:min(len(body), writePiece)]
		if _, err := w.Write(piece); err != nil {
			return // the connection has ended
		}
		body = body[len(piece):]
	}
}

// Encode returns the JSON of a value. Raw JSON in it keeps everything except insignificant
// spaces. Encode panics if the type of the value cannot be encoded.
func Encode(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic("frontend: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// WriteDetail writes an error response {"detail": message}.
func WriteDetail(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, Encode(struct {
		Detail string `json:"detail"`
	}{message}))
}

// Reject writes an error response in the format of a handler.
type Reject func(w http.ResponseWriter, status int, message string)

// Unread rejects a request without reading its body.
func (reject Reject) Unread(w http.ResponseWriter, r *http.Request, status int, message string) {
	httpguard.RefuseUnread(&rejectWriter{ResponseWriter: w, reject: reject}, r, status, jsonrpc.InvalidRequest, message)
}

// Allows reports whether a request has the given method, or is HEAD where the method is GET.
// Otherwise it rejects the request.
func (reject Reject) Allows(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", method)
	reject.Unread(w, r, http.StatusMethodNotAllowed, "Method Not Allowed")
	return false
}

// A rejectWriter rewrites the error responses of package httpguard in the format of a handler.
// Only these are written to it.
type rejectWriter struct {
	http.ResponseWriter

	reject Reject
	status int
}

// Unwrap supports http.ResponseController.
func (t *rejectWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader stores the status for Write.
func (t *rejectWriter) WriteHeader(status int) {
	t.status = status
	if status < http.StatusBadRequest { // a preflight response has no body
		t.ResponseWriter.WriteHeader(status)
	}
}

// Write receives the complete error response.
func (t *rejectWriter) Write(body []byte) (int, error) {
	message := http.StatusText(t.status)
	if decoded, err := jsonrpc.Decode(body); err == nil {
		if response, ok := decoded.(*jsonrpc.Response); ok && response.Error != nil {
			message = response.Error.Message
		}
	}
	t.reject(t.ResponseWriter, t.status, message)
	return len(body), nil
}

// Truncate shortens a name from an untrusted source for display.
func Truncate(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxShown], "") + "…"
}
