package servertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	maxMessages        = 10_000   // in a transcript
	maxTranscriptBytes = 16 << 20 // of a transcript
)

// A line is one line of a transcript. The first line has the names of volatile members, if there
// are any. The other lines have one message each, in the order in which the client sent and
// received them.
type line struct {
	Volatile []string        `json:"volatile,omitempty"`
	Client   json.RawMessage `json:"client,omitempty"`
	Server   json.RawMessage `json:"server,omitempty"`
}

// A recorder records the messages of one session.
type recorder struct {
	mu    sync.Mutex
	lines []line
	size  int
	err   error // why a message was not recorded
}

func newRecorder(volatile []string) *recorder {
	r := &recorder{}
	if len(volatile) > 0 {
		r.lines = append(r.lines, line{Volatile: volatile})
	}
	return r
}

// trace records a message. It is a function for jsonrpc.Options.
func (r *recorder) trace(_ string, sent bool, frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size += len(frame)
	if len(r.lines) >= maxMessages || r.size > maxTranscriptBytes {
		r.err = fmt.Errorf("the session has more than %d messages or %d MiB", maxMessages, maxTranscriptBytes>>20)
		return
	}
	if !json.Valid(frame) {
		r.err = fmt.Errorf("a message is not JSON: %.100q", frame)
		return
	}
	if frame = bytes.Clone(frame); sent {
		r.lines = append(r.lines, line{Client: frame})
	} else {
		r.lines = append(r.lines, line{Server: frame})
	}
}

// check compares the messages with a file, or writes it.
func (r *recorder) check(tb testing.TB, path string) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		tb.Errorf("servertest: record %s: %v", path, r.err)
		return
	}
	text, err := encodeLines(r.lines)
	if err != nil {
		tb.Errorf("servertest: record %s: %v", path, err)
		return
	}
	compare(tb, path, text, func(text string) (string, error) {
		lines, err := decodeLines(text)
		if err != nil {
			return "", err
		}
		names, masked := newMasks(volatileOf(lines)), make([]line, len(lines))
		for i, l := range lines {
			if masked[i], err = names.maskLine(l); err != nil {
				return "", fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		return encodeLines(masked)
	})
}

func encodeLines(lines []line) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for i := range lines {
		if err := encoder.Encode(&lines[i]); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

func decodeLines(text string) (lines []line, err error) {
	for record := range strings.Lines(text) {
		var l line
		if err := json.Unmarshal([]byte(record), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		if l.Client == nil && l.Server == nil && l.Volatile == nil {
			return nil, fmt.Errorf("line %d has neither a message of the client nor one of the server", len(lines)+1)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// Record returns a function for jsonrpc.Options.Trace that records the messages of a session with any
// server, such as one that stdio.Command starts. As with [Options].Transcript, when the test ends, the
// messages are compared with the file at path, or written to it. Close the session before the test
// ends, and make calls one after another. volatile are names as in [Options].Volatile.
func Record(tb testing.TB, path string, volatile ...string) func(conn string, sent bool, frame []byte) {
	r := newRecorder(volatile)
	tb.Cleanup(func() {
		tb.Helper()
		r.check(tb, path)
	})
	return r.trace
}

// readTranscript reads a file. It stops the test if that fails.
func readTranscript(tb testing.TB, path string) []line {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 2*maxTranscriptBytes {
		err = fmt.Errorf("the file is longer than %d MiB", 2*maxTranscriptBytes>>20)
	}
	var lines []line
	if err == nil {
		lines, err = decodeLines(string(text))
	}
	if err != nil {
		tb.Fatalf("servertest: %s: %v", path, err)
	}
	return lines
}

// volatileOf returns the names of volatile members of a transcript.
func volatileOf(lines []line) []string {
	if len(lines) == 0 {
		return nil
	}
	return lines[0].Volatile
}

// masks replaces volatile values by placeholders, so that two sessions can be compared:
// "(createdAt 1)" is the first value of members named createdAt.
type masks struct {
	names        []string
	placeholders map[string]string          // by name and value
	values       map[string]json.RawMessage // by placeholder
	count        map[string]int             // placeholders of a name
}

// sealedState is the member with the state of a call that asks, which is encrypted.
const sealedState = "requestState"

func newMasks(volatile []string) *masks {
	return &masks{
		names:        append([]string{sealedState}, volatile...),
		placeholders: make(map[string]string),
		values:       make(map[string]json.RawMessage),
		count:        make(map[string]int),
	}
}

// maskLine returns a line whose message has placeholders.
func (m *masks) maskLine(l line) (masked line, err error) {
	masked.Volatile = l.Volatile
	if l.Client != nil {
		masked.Client, err = m.mask(l.Client)
	}
	if l.Server != nil && err == nil {
		masked.Server, err = m.mask(l.Server)
	}
	return masked, err
}

// mask returns a message with placeholders, and with sorted members.
func (m *masks) mask(message []byte) (json.RawMessage, error) {
	return rewrite(message, func(name string, value any) (any, error) {
		if !slices.Contains(m.names, name) {
			return nil, nil
		}
		encoded, err := encode(value)
		if err != nil {
			return nil, err
		}
		key := name + " " + string(encoded)
		placeholder, ok := m.placeholders[key]
		if !ok {
			m.count[name]++
			placeholder = fmt.Sprintf("(%s %d)", name, m.count[name])
			m.placeholders[key], m.values[placeholder] = placeholder, encoded
		}
		return placeholder, nil
	})
}

// translate returns a message of a recorded session with the values of the current session.
// recorded has masked the messages of the recorded session, and m the messages of the current session.
func (m *masks) translate(recorded *masks, message []byte) (json.RawMessage, error) {
	masked, err := recorded.mask(message)
	if err != nil {
		return nil, err
	}
	return rewrite(masked, func(name string, value any) (any, error) {
		text, ok := value.(string)
		if !ok || !slices.Contains(m.names, name) {
			return nil, nil
		}
		if current, ok := m.values[text]; ok {
			return current, nil
		}
		return recorded.values[text], nil // the client has chosen it
	})
}

// rewrite calls change for each member of the objects in a JSON text, the inner ones first, and
// replaces the value unless the result is nil. Strings that contain JSON, such as the text of a
// structured result, are rewritten too. The result has sorted members.
func rewrite(text []byte, change func(name string, value any) (any, error)) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the value")
	}
	value, _, err := rewriteValue(value, change)
	if err != nil {
		return nil, err
	}
	return encode(value)
}

func rewriteValue(value any, change func(name string, value any) (any, error)) (result any, changed bool, err error) {
	switch value := value.(type) {
	case []any:
		for i := range value {
			element, c, err := rewriteValue(value[i], change)
			if err != nil {
				return nil, false, err
			}
			value[i], changed = element, changed || c
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) { // in order, so that placeholders are stable
			member, c, err := rewriteValue(value[name], change)
			if err != nil {
				return nil, false, err
			}
			other, err := change(name, member)
			if err != nil {
				return nil, false, err
			}
			if other != nil {
				member, c = other, true
			}
			value[name], changed = member, changed || c
		}
	case string:
		if !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "[") {
			break
		}
		inner := false
		text, err := rewrite([]byte(value), func(name string, value any) (any, error) {
			other, err := change(name, value)
			inner = inner || other != nil
			return other, err
		})
		if err == nil && inner {
			return string(text), true, nil
		}
	}
	return value, changed, nil
}

// encode returns the JSON text of a value, without escapes for HTML.
func encode(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(text.Bytes()), nil
}
