package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// maxEvents is how many events are kept, the last ones.
	maxEvents = 1000
	// maxDetails is how much of the details of an event is kept, in bytes.
	maxDetails = 1 << 10
	// maxStderr is how much of the standard error of a server is kept, in bytes: the last lines.
	maxStderr = 64 << 10
)

// An event is something that happened to the servers or to the configuration: a log record.
type event struct {
	number  uint64
	at      time.Time
	level   slog.Level
	text    string
	server  string
	details string // the attributes, without secrets
}

// LogHandler returns a handler that keeps the last 1,000 records of level Info and above as what happened, and passes all records
// to next. Viewers get the messages and the attribute "server". Operators get all attributes, without the secrets of
// [Recorder.Hide], up to 1 KiB of each record. Use it for the loggers of a bridge and of what configures it, not for those of
// calls.
func (r *Recorder) LogHandler(next slog.Handler) slog.Handler {
	return &logHandler{record: r, next: next}
}

type logHandler struct {
	record  *Recorder
	next    slog.Handler
	server  string
	details string
	group   string // the prefix of the names of attributes
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo {
		about := *h
		record.Attrs(func(a slog.Attr) bool {
			about.add(a)
			return true
		})
		h.record.happened(event{at: record.Time, level: record.Level, text: record.Message, server: about.server, details: about.details})
	}
	if !h.next.Enabled(ctx, record.Level) {
		return nil
	}
	return h.next.Handle(ctx, record)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		with.add(a)
	}
	return &with
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	with := *h
	with.next = h.next.WithGroup(name)
	if name != "" {
		with.group += name + "."
	}
	return &with
}

// add adds an attribute to what is kept of records.
func (h *logHandler) add(a slog.Attr) {
	if h.group == "" && a.Key == "server" {
		h.server = a.Value.String()
		return
	}
	if h.details != "" {
		h.details += " · "
	}
	h.details += fmt.Sprintf("%s%s: %v", h.group, a.Key, a.Value.Resolve())
}

// happened keeps an event.
func (r *Recorder) happened(e event) {
	e.text, e.server, e.details = r.name(e.text), r.name(e.server), r.short(e.details, maxDetails)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastEvent++
	e.number = r.lastEvent
	if len(r.events) == maxEvents {
		r.events = append(r.events[:0], r.events[1:]...)
	}
	r.events = append(r.events, e)
}

// A shownEvent is an event in a frame, for viewers too: it has no text of a peer.
type shownEvent struct {
	At     int64  `json:"at"`
	Level  string `json:"level"`
	Text   string `json:"text"`
	Server string `json:"server,omitempty"`
}

// A detailedEvent is an event in a frame for operators.
type detailedEvent struct {
	shownEvent
	Details string `json:"details,omitempty"`
}

func (e *event) shown() shownEvent {
	return shownEvent{e.at.UnixMicro(), strings.ToLower(e.level.String()), e.text, e.server}
}

func (e *event) detailed() detailedEvent { return detailedEvent{e.shown(), e.details} }

// eventsSince returns the kept events after a number, as show makes them, and the last number.
func eventsSince[T any](r *Recorder, number uint64, show func(*event) T) ([]T, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []T
	for i := range r.events {
		if r.events[i].number > number {
			events = append(events, show(&r.events[i]))
		}
	}
	return events, r.lastEvent
}

// Stderr returns a writer that keeps the last lines, up to 64 KiB, of the standard error of the server with an alias, and passes
// everything to next, which may be nil. The page shows them to operators without the secrets of [Recorder.Hide]. Several
// processes may write to it, concurrently.
func (r *Recorder) Stderr(alias string, next io.Writer) io.Writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.stderr[alias]
	if kept == nil {
		kept = &lastLines{}
		if len(r.stderr) < maxServers {
			r.stderr[alias] = kept
		}
	}
	if next == nil {
		return kept
	}
	return &passedLines{kept, next}
}

// passedLines are lines that are kept and passed on.
type passedLines struct {
	kept *lastLines
	next io.Writer
}

// Write keeps p and passes it on.
func (l *passedLines) Write(p []byte) (int, error) {
	_, _ = l.kept.Write(p) // it does not fail
	return l.next.Write(p)
}

// Unwrap returns the next writer, so that lines are as wide as its terminal.
func (l *passedLines) Unwrap() io.Writer { return l.next }

// stderrOf returns the last lines of the standard error of a server.
func (r *Recorder) stderrOf(alias string) string {
	r.mu.Lock()
	kept := r.stderr[alias]
	r.mu.Unlock()
	if kept == nil {
		return ""
	}
	return r.redact(kept.String())
}

// lastLines keeps the last maxStderr bytes that are written, from the beginning of a line.
type lastLines struct {
	mu   sync.Mutex
	text []byte // at most twice as long
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	p = p[max(0, n-2*maxStderr):]
	if len(l.text)+len(p) > 2*maxStderr {
		l.text = append(l.text[:0], l.last()...)
		l.text = l.text[max(0, len(l.text)+len(p)-2*maxStderr):]
	}
	l.text = append(l.text, p...)
	return n, nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last())
}

// last returns the last lines that are kept.
func (l *lastLines) last() []byte {
	cut := len(l.text) - maxStderr
	if cut <= 0 {
		return l.text
	}
	if end := bytes.IndexByte(l.text[cut-1:], '\n'); end >= 0 {
		cut += end
	}
	return l.text[cut:]
}
