package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// logHandler is a slog.Handler that sends records to the caller of a request.
// MCP 2025-11-25, server/utilities/logging.
type logHandler struct {
	request *Request
	name    string
	attrs   []slog.Attr
	groups  []string
}

// Enabled says whether the caller wants messages of this level.
func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	wanted := h.request.Caller().LogLevel
	return wanted != "" && levelOf(level).Severity() >= wanted.Severity()
}

// Handle sends one record. Its data is an object: the message, the attributes,
// groups as objects. The time is that of arrival.
func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	attrs := slices.Clone(h.attrs)
	record.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, h.grouped(a))
		return true
	})
	data := make(map[string]any, len(attrs)+1)
	for _, a := range attrs {
		put(data, a)
	}
	data["message"] = record.Message
	encoded, err := encode(data)
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

func put(data map[string]any, a slog.Attr) {
	if a.Equal(slog.Attr{}) {
		return
	}
	value := a.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		data[a.Key] = plain(value)
		return
	}
	group := data
	if a.Key != "" {
		var ok bool
		if group, ok = data[a.Key].(map[string]any); !ok {
			group = make(map[string]any)
			data[a.Key] = group
		}
	}
	for _, member := range value.Group() {
		put(group, member)
	}
}

// plain is a value's JSON; errors and what has no JSON are their text.
func plain(value slog.Value) any {
	if err, ok := value.Any().(error); ok {
		return err.Error()
	}
	if value.Kind() == slog.KindDuration {
		return value.String()
	}
	encoded, err := encode(value.Any())
	if err != nil {
		return fmt.Sprint(value.Any())
	}
	return encoded
}

// levelOf is the MCP level of a slog level.
func levelOf(level slog.Level) mcp.LoggingLevel {
	switch {
	case level < slog.LevelInfo:
		return mcp.LevelDebug
	case level < slog.LevelInfo+2:
		return mcp.LevelInfo
	case level < slog.LevelWarn:
		return mcp.LevelNotice
	case level < slog.LevelError:
		return mcp.LevelWarning
	case level < slog.LevelError+4:
		return mcp.LevelError
	case level < slog.LevelError+8:
		return mcp.LevelCritical
	case level < slog.LevelError+12:
		return mcp.LevelAlert
	}
	return mcp.LevelEmergency
}
