package pin

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// fileVersion is that of the file's form.
const fileVersion = 1

// A FileError says what is wrong with the file of a lock.
type FileError struct {
	Path string
	// Line is the line in which it goes wrong, from 1.
	Line int
	// Err says what was expected there.
	Err error
}

// Error begins with path and line.
func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

// Unwrap returns what was expected.
func (e *FileError) Unwrap() error { return e.Err }

// append writes the lock as a file, a tool a line: the same bytes for the same pins.
func (c contents) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "{\n  \"version\": %d,\n  \"servers\": {", fileVersion)
	for i, alias := range slices.Sorted(maps.Keys(c)) {
		dst = appendKey(dst, i, "\n    ", alias)
		dst = append(dst, "{\n      \"tools\": {"...)
		for i, tool := range slices.Sorted(maps.Keys(c[alias])) {
			dst = appendKey(dst, i, "\n        ", tool)
			dst = jsonscan.AppendString(dst, c[alias][tool])
		}
		dst = append(dst, "\n      }\n    }"...)
	}
	if len(c) > 0 {
		dst = append(dst, "\n  "...)
	}
	return append(dst, "}\n}\n"...)
}

func appendKey(dst []byte, i int, indent, name string) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, indent...)
	return append(jsonscan.AppendString(dst, name), ": "...)
}

// parse reads a lock. Nothing is guessed: what is not known is an error, since a pin that
// was overlooked would be one fewer.
func parse(path string, text []byte) (contents, error) {
	r := reader{scan: jsonscan.New(text), found: make(contents)}
	err := r.file()
	if err == nil {
		err = r.scan.End()
	}
	if err == nil {
		return r.found, nil
	}
	offset := r.at
	if e, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		offset, err = e.Offset, errors.New(e.Message)
	}
	offset = min(offset, len(text))
	return nil, &FileError{Path: path, Line: 1 + bytes.Count(text[:offset], []byte{'\n'}), Err: err}
}

// A reader reads the file of a lock.
type reader struct {
	scan  jsonscan.Scanner
	at    int // where what is being read begins
	found contents
	count int
}

func (r *reader) file() error {
	return r.object("the lock", []string{"version", "servers"}, func(name string) error {
		if name == "version" {
			return r.version()
		}
		return r.object("servers", nil, r.server)
	})
}

func (r *reader) version() error {
	number, err := r.scan.Number()
	if err == nil && string(number) != strconv.Itoa(fileVersion) {
		err = fmt.Errorf("expected version %d, found %.20s", fileVersion, number)
	}
	return err
}

func (r *reader) server(alias string) error {
	if err := checkName("server", alias); err != nil {
		return err
	}
	r.found[alias] = make(digests)
	return r.object("a server", []string{"tools"}, func(string) error {
		return r.object("tools", nil, func(tool string) error { return r.tool(alias, tool) })
	})
}

func (r *reader) tool(alias, tool string) error {
	if err := checkName("tool", tool); err != nil {
		return err
	}
	if r.count++; r.count > MaxPins {
		return ErrFull
	}
	raw, err := r.scan.String()
	if err != nil {
		return err
	}
	digest := jsonscan.Unquote(raw)
	r.found[alias][tool] = digest
	return checkDigest(digest)
}

// object reads an object with just the members that are named, or any if none are.
func (r *reader) object(what string, names []string, value func(name string) error) error {
	if err := r.scan.EnterObject(); err != nil {
		return err
	}
	begin := r.scan.Offset() - 1
	var keys jsonscan.Keys
	seen := 0
	for first := true; ; first = false {
		key, ok, err := r.scan.Member(first)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		r.at = r.scan.KeyOffset()
		if err := keys.Add(key, r.at); err != nil {
			return err
		}
		name := jsonscan.Unquote(key)
		if names != nil && !slices.Contains(names, name) {
			return fmt.Errorf("expected a member of %s, which are %q, found %.100q", what, names, name)
		}
		seen++
		if err := value(name); err != nil {
			return err
		}
	}
	if seen < len(names) {
		r.at = begin
		return fmt.Errorf("expected all members of %s, which are %q, found %d", what, names, seen)
	}
	return nil
}
