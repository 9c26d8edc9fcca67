// Package tomledit changes one table of a TOML text and no other byte.
package tomledit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// maxText is the length of the longest text, in bytes.
const maxText = 8 << 20

var bom = []byte("\uFEFF") // stays before the first line

// ErrNotFound is the error of removing a table that does not exist.
var ErrNotFound = errors.New("there is no such table")

// Set returns the text with the table [parent.name] at its end, in place of an existing one. Values
// are strings, lists of strings, and tables of strings, which become tables below it.
func Set(text []byte, parent, name string, values map[string]any) ([]byte, error) {
	out, err := Remove(text, parent, name)
	switch {
	case errors.Is(err, ErrNotFound):
		out = bytes.Clone(text)
	case err != nil:
		return nil, err
	}
	newline := newlineOf(text)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, newline...)
	}
	if len(bytes.TrimSpace(out)) > 0 && !bytes.HasSuffix(out, []byte(newline+newline)) {
		out = append(out, newline...)
	}
	header := parent + "." + key(name)
	out = append(out, strings.ReplaceAll(table(header, values), "\n", newline)...)
	return checked(text, out, parent, name)
}

// Remove returns the text without the table [parent.name], the tables below it, and the comments
// inside them. The error is ErrNotFound if there is no such table, or says that the table is written
// in another form.
func Remove(text []byte, parent, name string) ([]byte, error) {
	before, err := Decode(text)
	if err != nil {
		return nil, err
	}
	if tables, ok := before[parent].(map[string]any); !ok || tables[name] == nil {
		return nil, ErrNotFound
	}
	content, marked := bytes.CutPrefix(text, bom)
	lines := bytes.SplitAfter(content, []byte("\n"))
	var out []byte
	if marked {
		out = bytes.Clone(bom)
	}
	var held []byte // comments and blank lines, which belong to the next table
	inside, open := false, ""
	for _, line := range lines {
		header, isHeader := tableOf(line, open)
		open = openString(line, open)
		if isHeader {
			if inside && endsBlank(out) { // one blank line is enough
				held = bytes.TrimLeft(held, "\r\n")
			}
			out = append(out, held...)
			held = nil
			inside = len(header) >= 2 && header[0] == parent && header[1] == name
		}
		switch trimmed := bytes.TrimSpace(line); {
		case !inside:
			out = append(out, line...)
		case open == "" && (len(trimmed) == 0 || trimmed[0] == '#'):
			held = append(held, line...)
		default:
			held = nil
		}
	}
	if inside && len(bytes.TrimSpace(held)) == 0 && endsBlank(out) { // the table was the last
		if out, held = bytes.TrimRight(out, "\r\n"), nil; len(out) > 0 {
			out = append(out, newlineOf(text)...)
		}
	}
	out = append(out, held...)
	after, err := Decode(out)
	if err != nil {
		return nil, fmt.Errorf("the change would break the file: %w", err)
	}
	if tables, ok := after[parent].(map[string]any); ok && tables[name] != nil {
		return nil, fmt.Errorf("the table %s.%s is not written as [%s.%s]: change it by hand", parent, name, parent, name)
	}
	return checked(text, out, parent, name)
}

// endsBlank reports whether a text is empty or ends with a blank line.
func endsBlank(text []byte) bool {
	text = bytes.TrimPrefix(text, bom)
	return len(text) == 0 || bytes.HasSuffix(text, []byte("\n\n")) || bytes.HasSuffix(text, []byte("\n\r\n"))
}

// newlineOf returns the line break of a text.
func newlineOf(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// Decode returns the values of a text.
func Decode(text []byte) (map[string]any, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the file is longer than %d bytes", maxText)
	}
	values := make(map[string]any)
	if err := toml.Unmarshal(bytes.TrimPrefix(text, bom), &values); err != nil {
		return nil, fmt.Errorf("the file is not valid TOML: %w", err)
	}
	return values, nil
}

// checked returns the new text if it differs from the old one only in the table.
func checked(before, after []byte, parent, name string) ([]byte, error) {
	old, err := Decode(before)
	if err != nil {
		return nil, err
	}
	changed, err := Decode(after)
	if err != nil {
		return nil, fmt.Errorf("the change would break the file: %w", err)
	}
	for _, values := range []map[string]any{old, changed} {
		if tables, ok := values[parent].(map[string]any); ok {
			if delete(tables, name); len(tables) == 0 {
				delete(values, parent)
			}
		}
	}
	if !reflect.DeepEqual(old, changed) {
		return nil, errors.New("the file cannot be changed without changing other values")
	}
	return after, nil
}

// tableOf returns the keys of a line that begins a table. open is the delimiter of a string of
// several lines that the line is part of.
func tableOf(line []byte, open string) (keys []string, ok bool) {
	text := strings.TrimSpace(string(line))
	if open != "" || !strings.HasPrefix(text, "[") {
		return nil, false
	}
	// The table is decoded alone: its only value is the innermost table.
	var values map[string]any
	if toml.Unmarshal([]byte(text+"\n"), &values) != nil {
		return nil, false // an array of several lines
	}
	for len(values) == 1 {
		for name, value := range values {
			keys = append(keys, name)
			switch value := value.(type) {
			case map[string]any:
				values = value
			default:
				values = nil
			}
		}
	}
	return keys, true
}

// openString returns the delimiter of a string of several lines that does not end on the line, or "".
func openString(line []byte, open string) string {
	for text := string(line); text != ""; {
		switch {
		case open != "":
			at := strings.Index(text, open)
			if at < 0 {
				return open
			}
			if open == `"""` && at > 0 && text[at-1] == '\\' {
				text = text[at+1:]
				continue
			}
			text, open = text[at+3:], ""
		case strings.HasPrefix(text, `"""`), strings.HasPrefix(text, `'''`):
			open, text = text[:3], text[3:]
		case text[0] == '#':
			return ""
		case text[0] == '"' || text[0] == '\'':
			text = afterString(text)
		default:
			text = text[1:]
		}
	}
	return open
}

// afterString returns the text after the string at its start.
func afterString(text string) string {
	for i := 1; i < len(text); i++ {
		if text[i] == '\\' && text[0] == '"' {
			i++
		} else if text[i] == text[0] {
			return text[i+1:]
		}
	}
	return ""
}

// table returns a table with its values in the order of their names, and the tables in it.
func table(header string, values map[string]any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n", header)
	names := slices.Sorted(maps.Keys(values))
	for _, name := range names {
		switch value := values[name].(type) {
		case string:
			fmt.Fprintf(&b, "%s = %s\n", key(name), quote(value))
		case []string:
			quoted := make([]string, len(value))
			for i, text := range value {
				quoted[i] = quote(text)
			}
			fmt.Fprintf(&b, "%s = [%s]\n", key(name), strings.Join(quoted, ", "))
		}
	}
	for _, name := range names {
		if value, ok := values[name].(map[string]string); ok && len(value) > 0 {
			inner := make(map[string]any, len(value))
			for n, text := range value {
				inner[n] = text
			}
			b.WriteString("\n" + table(header+"."+key(name), inner))
		}
	}
	return b.String()
}

// key returns a key, in quotes if it needs them.
func key(name string) string {
	isBare := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !isBare(r) }) < 0 {
		return name
	}
	return quote(name)
}

// quote returns a basic string.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}
