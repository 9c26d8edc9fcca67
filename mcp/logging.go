package mcp

import (
	"encoding/json"
	"slices"
)

// A LoggingLevel is how severe a log message is: the levels of RFC 5424.
type LoggingLevel string

// The levels, least severe first.
const (
	LevelDebug     LoggingLevel = "debug"
	LevelInfo      LoggingLevel = "info"
	LevelNotice    LoggingLevel = "notice"
	LevelWarning   LoggingLevel = "warning"
	LevelError     LoggingLevel = "error"
	LevelCritical  LoggingLevel = "critical"
	LevelAlert     LoggingLevel = "alert"
	LevelEmergency LoggingLevel = "emergency"
)

// LoggingLevels returns the levels, least severe first.
func LoggingLevels() []LoggingLevel {
	return []LoggingLevel{
		LevelDebug, LevelInfo, LevelNotice, LevelWarning, LevelError, LevelCritical, LevelAlert, LevelEmergency,
	}
}

// Valid says whether the level is one of the eight.
func (l LoggingLevel) Valid() bool { return l.Severity() >= 0 }

// Severity orders the levels: 0 is debug, 7 is emergency, -1 is no level.
func (l LoggingLevel) Severity() int { return slices.Index(LoggingLevels(), l) }

// SetLevelParams are those of logging/setLevel (until 2025-11-25).
type SetLevelParams struct {
	// Level is the least severe one to send.
	Level LoggingLevel `json:"level"`
	Meta  Meta         `json:"_meta,omitzero"`
	Extra Extra        `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (s *SetLevelParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields SetLevelParams
	return appendFields(dst, (*fields)(s))
}

// MarshalJSON returns the parameters as a JSON object.
func (s SetLevelParams) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (s *SetLevelParams) UnmarshalJSON(data []byte) error {
	type fields SetLevelParams
	return decode(data, (*fields)(s))
}

// LoggingMessageParams are those of notifications/message: one log message.
type LoggingMessageParams struct {
	Level LoggingLevel `json:"level"`
	// Logger names the part of the server that logs.
	Logger string `json:"logger,omitzero"`
	// Data is any JSON value; nil is null. It must not hold secrets.
	Data  json.RawMessage `json:"data"`
	Meta  Meta            `json:"_meta,omitzero"`
	Extra Extra           `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (l *LoggingMessageParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("level", string(l.Level))
	w.optionalString("logger", l.Logger)
	if l.Data == nil {
		w.raw("data", json.RawMessage("null"))
	} else {
		w.raw("data", l.Data)
	}
	w.meta(l.Meta)
	return w.close(l.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (l LoggingMessageParams) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (l *LoggingMessageParams) UnmarshalJSON(data []byte) error {
	type fields LoggingMessageParams
	return decode(data, (*fields)(l))
}
