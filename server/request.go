package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/textproto"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Request is the call that a function answers, with the means to reach its caller. It is valid
// until the function returns. Its methods may be called concurrently, except for [Request.SetChunks].
//
// The principal of an authenticated caller is [Request.Caller].Principal, and [mcp.Call.ID] of
// [Request.Call] identifies the call in all its runs. Over HTTP, the context of the function has the
// values of the request's context, in each run; over WebSocket and HTTP+SSE it is the request that has
// opened the session.
//
// A nil *Request is a request without a caller, for tests that call a function directly: what would be sent to the
// caller is dropped, and questions are errors. Package servertest makes one that answers questions.
type Request struct {
	ctx    context.Context // of the run
	call   *mcp.Call
	server *Server                      // nil if the function belongs to no server
	opened atomic.Pointer[openQuestion] // the last one in this run
	result structuredResult             // see output.encoded
}

// NewRequest returns the request of a call, for programs and tests that call functions of tools, prompts and
// resources themselves. The server has the dependencies of the function; nil means that there are none.
// ctx is the context of the run.
func NewRequest(ctx context.Context, s *Server, call *mcp.Call) *Request {
	return &Request{ctx: ctx, call: call, server: s}
}

// Call returns the call. It is nil for a nil Request.
func (r *Request) Call() *mcp.Call {
	if r == nil {
		return nil
	}
	return r.call
}

// Caller describes the caller. It is shared between calls and must not be changed.
func (r *Request) Caller() *mcp.Caller {
	if r == nil {
		return &mcp.Caller{}
	}
	return r.call.Caller
}

// Header returns the header of the HTTP request that the call came with, or nil; see [transport.Header], which guards and
// middleware call. It must not be changed.
func (r *Request) Header() textproto.MIMEHeader {
	if r == nil {
		return nil
	}
	return transport.Header(r.ctx)
}

// SessionID returns the id of the session that the call belongs to, or ""; see [transport.SessionID], which guards and
// middleware call.
func (r *Request) SessionID() string {
	if r == nil {
		return ""
	}
	return transport.SessionID(r.ctx)
}

// Meta returns a member of the request's _meta, or nil. It must not be changed.
func (r *Request) Meta(key string) json.RawMessage {
	if r == nil {
		return nil
	}
	return r.call.Member("_meta", key)
}

// Progress sends a progress notification if the caller has asked for it, and otherwise does
// nothing. done must increase with each call; other values are dropped. total is 0 if it is
// unknown. message may be empty, and needs version 2025-03-26 or newer. The notification arrives
// before the result. Progress blocks while the connection is slow. The error is the error of ctx or an error of
// the connection.
func (r *Request) Progress(ctx context.Context, done, total float64, message string) error {
	if r == nil {
		return nil
	}
	token := r.call.ProgressToken()
	if token == nil && !r.continues() {
		return nil
	}
	p, ok := progressReports.Get().(*progressReport)
	if !ok {
		p = new(progressReport)
	}
	p.params = mcp.ProgressParams{ProgressToken: mcp.ProgressToken(token), Progress: done, Message: message}
	if total > 0 {
		p.total = total
		p.params.Total = &p.total
	}
	err := r.call.Notify(ctx, mcp.NotificationProgress, &p.params)
	p.params = mcp.ProgressParams{}
	progressReports.Put(p)
	return err
}

// SetChunks says how many chunks a stream has; see [AddStream]. The progress notifications of later
// chunks have it as their total, so that the caller can show how far the stream is. A stream that does
// not know the number does not call SetChunks. A total of 0 or less means that the number is not known.
// Outside of a stream SetChunks does nothing. Unlike other methods, it must not be called concurrently: the function calls it, or the sequence that it returns.
func (r *Request) SetChunks(total int) {
	if r != nil {
		r.call.Set(chunksKey{}, total)
	}
}

// chunksKey is the key of the number of chunks in the values of a call.
type chunksKey struct{}

// A progressReport is a progress notification that is being sent.
type progressReport struct {
	params mcp.ProgressParams
	total  float64
}

var progressReports sync.Pool // of *report

// Detach closes the connection of the call while the function continues, so that a long call does
// not hold a connection open. The client reconnects after retry to get missed messages and the
// result. With 0 the client chooses when. Detach works for clients over streamable HTTP with
// version 2025-11-25, and otherwise does nothing. MCP 2025-11-25, basic/transports, "Sending
// Messages to the Server".
func (r *Request) Detach(retry time.Duration) {
	if r != nil {
		r.call.Detach(retry)
	}
}

// Logger returns a logger that sends records to the caller as log messages, before the result of
// the call. Records below the level that the caller has set are not sent. name may be empty.
func (r *Request) Logger(name string) *slog.Logger {
	return slog.New(&logHandler{request: r, name: name})
}

// logger returns the logger for the operator.
func (r *Request) logger() *slog.Logger {
	if r == nil || r.server == nil {
		return slog.Default()
	}
	return r.server.options.Logger
}

// A logHandler is a slog.Handler that sends records to the caller of a request. MCP 2025-11-25,
// server/utilities/logging.
type logHandler struct {
	request *Request
	name    string
	attrs   []slog.Attr
	groups  []string
}

// Enabled reports whether the caller wants messages of this level.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	wanted := h.request.Caller().LogLevel
	return h.request.continues() || wanted != "" && levelOf(level).Severity() >= wanted.Severity()
}

// Handle sends one record. Its data is an object with the message and the attributes. Groups are
// nested objects. The time of the record is not sent. An attribute that has no JSON does not prevent the
// record from being sent. Of a record with more than 1 MiB, only the message is sent. A record that is not sent is
// logged for the operator.
func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	err := h.send(ctx, record)
	if err == nil {
		return nil
	}
	level := slog.LevelWarn
	if ctx.Err() != nil || h.request.ctx.Err() != nil {
		level = slog.LevelDebug // the caller does not wait any more; methods such as Info have another context than the call
	}
	h.request.logger().Log(context.WithoutCancel(ctx), level, "a log message was not sent to the caller", "message", record.Message, "error", err)
	return err
}

func (h *logHandler) send(ctx context.Context, record slog.Record) error {
	attrs := slices.Clone(h.attrs)
	record.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, h.grouped(a))
		return true
	})
	data := make(logData, len(attrs)+1)
	attributes := maxAttributes
	for _, a := range attrs {
		data.put(a, 0, &attributes)
	}
	data["message"] = record.Message
	encoded, err := jsonvalue.Marshal(data)
	if err == nil && len(encoded) > maxRecord {
		text := record.Message[:min(len(record.Message), maxRecordText)]
		encoded, err = jsonvalue.Marshal(logData{"message": text, "truncated": fmt.Sprintf("!ERROR: the record has %d bytes, more than %d", len(encoded), maxRecord)})
	}
	if err != nil {
		return err
	}
	return h.request.call.Notify(ctx, mcp.NotificationMessage, &mcp.LoggingMessageParams{
		Level: levelOf(record.Level), Logger: h.name, Data: encoded,
	})
}

// WithAttrs returns a handler that adds attributes to each record.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		with.attrs = append(with.attrs, h.grouped(a))
	}
	return &with
}

// WithGroup returns a handler that puts later attributes into a group.
func (h *logHandler) WithGroup(name string) slog.Handler {
	with := *h
	with.groups = append(slices.Clone(h.groups), name)
	return &with
}

func (h *logHandler) grouped(a slog.Attr) slog.Attr {
	for _, name := range slices.Backward(h.groups) {
		a = slog.Attr{Key: name, Value: slog.GroupValue(a)}
	}
	return a
}

// Limits of a log record. A LogValuer may return a group with itself, and a client ends a connection when a
// message is too large for it.
const (
	maxAttributes = 10_000
	maxGroups     = 32      // groups inside each other
	maxRecord     = 1 << 20 // bytes of the data
	maxRecordText = 4 << 10 // bytes of the message of a record with more data
)

// logData is the data of a log message, or a group in it.
type logData map[string]any

// put adds an attribute. attributes is the number of attributes that the record may still have.
func (data logData) put(a slog.Attr, depth int, attributes *int) {
	if a.Equal(slog.Attr{}) || *attributes < 0 {
		return
	}
	if *attributes--; *attributes < 0 || depth > maxGroups {
		data[a.Key] = fmt.Sprintf("!ERROR: more than %d attributes, or %d groups inside each other", maxAttributes, maxGroups)
		return
	}
	value := a.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		data[a.Key] = logValue(value)
		return
	}
	group := data
	if a.Key != "" {
		var ok bool
		if group, ok = data[a.Key].(logData); !ok {
			group = make(logData)
			data[a.Key] = group
		}
	}
	for _, member := range value.Group() {
		group.put(member, depth+1, attributes)
	}
}

// logValue returns the JSON of a value, or a text for errors and values that have no JSON. The texts for a method that
// panics, and for a value that cannot be encoded, are those of [slog.JSONHandler].
func logValue(value slog.Value) (encoded any) {
	v := value.Any()
	defer func() {
		if p := recover(); p != nil {
			encoded = fmt.Sprintf("!PANIC: %v", p)
			if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
				encoded = "<nil>"
			}
		}
	}()
	if err, ok := v.(error); ok {
		return err.Error()
	}
	if value.Kind() == slog.KindDuration {
		return value.String()
	}
	raw, err := jsonvalue.Marshal(v)
	if err == nil {
		err = jsonscan.Valid(raw) // limits the depth
	}
	if err == nil {
		return raw
	}
	switch reflect.ValueOf(v).Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Struct, reflect.Pointer:
		return "!ERROR: " + err.Error() // package fmt does not find cycles
	}
	return fmt.Sprint(v)
}

// levelOf returns the MCP level for a slog level.
func levelOf(level slog.Level) mcp.LoggingLevel {
	levels := mcp.LoggingLevels()
	bounds := []slog.Level{
		slog.LevelInfo, slog.LevelInfo + 2, slog.LevelWarn, slog.LevelError,
		slog.LevelError + 4, slog.LevelError + 8, slog.LevelError + 12,
	}
	for i, bound := range bounds {
		if level < bound {
			return levels[i]
		}
	}
	return levels[len(levels)-1]
}
