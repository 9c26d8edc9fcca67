package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A ParseError is a text that is no policy.
type ParseError struct {
	// Line and Column are where, from 1; columns are bytes.
	Line, Column int
	// Message says what was expected.
	Message string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("policy: line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// A reader reads JSON whose members are all known.
type reader struct {
	data []byte
	scan jsonscan.Scanner
}

// fields are what reads the members of an object.
type fields map[string]func() error

// read reads a text that is one value and nothing else.
func read(data []byte, value func(r *reader) error) error {
	if len(data) > MaxSize {
		return &ParseError{1, 1, fmt.Sprintf("it has %d bytes, and may have %d", len(data), MaxSize)}
	}
	r := &reader{data, jsonscan.New(data)}
	err := value(r)
	if err == nil {
		err = r.scan.End()
	}
	return r.located(err)
}

// located says where a text is wrong that is no JSON.
func (r *reader) located(err error) error {
	if wrong, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		return r.at(wrong.Offset, wrong.Message)
	}
	if wrong, ok := errors.AsType[*jsonscan.DuplicateError](err); ok {
		return r.at(wrong.Offset, wrong.Error())
	}
	return err
}

func (r *reader) at(offset int, message string) error {
	before := r.data[:min(offset, len(r.data))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return &ParseError{bytes.Count(before, []byte{'\n'}) + 1, len(before) - line + 1, message}
}

// start is where the value that comes next begins.
func (r *reader) start() int {
	rest := r.data[r.scan.Offset():]
	return len(r.data) - len(bytes.TrimLeft(rest, " \t\r\n"))
}

func (r *reader) object(known fields) error {
	return r.members(func(name string, at int) error {
		field, ok := known[name]
		if !ok {
			return r.at(at, fmt.Sprintf("unknown member %s: expected one of %s",
				jsonscan.Quote(name), strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		}
		return field()
	})
}

func (r *reader) members(member func(name string, at int) error) error {
	if err := r.scan.EnterObject(); err != nil {
		return err
	}
	var keys jsonscan.Keys
	for first := true; ; first = false {
		key, ok, err := r.scan.Member(first)
		if err != nil || !ok {
			return err
		}
		at := r.scan.KeyOffset()
		if err := keys.Add(key, at); err != nil {
			return err
		}
		if err := member(jsonscan.Unquote(key), at); err != nil {
			return err
		}
	}
}

func (r *reader) array(element func() error) error {
	if err := r.scan.EnterArray(); err != nil {
		return err
	}
	for first := true; ; first = false {
		ok, err := r.scan.Element(first)
		if err != nil || !ok {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

func text[T ~string](r *reader, into *T) func() error {
	return func() error {
		raw, err := r.scan.String()
		if err == nil {
			*into = T(jsonscan.Unquote(raw))
		}
		return err
	}
}

func (r *reader) text(into *string) func() error { return text(r, into) }

// arrayOf reads an array, which is not nil then.
func arrayOf[T any](r *reader, into *[]T, element func(into *T) func() error) func() error {
	return func() error {
		*into = []T{}
		return r.array(func() error {
			var value T
			err := element(&value)()
			*into = append(*into, value)
			return err
		})
	}
}

func (r *reader) texts(into *[]string) func() error { return arrayOf(r, into, r.text) }

func (r *reader) bool(into *bool) func() error {
	return func() error {
		at := r.start()
		raw, err := r.scan.Value()
		if err != nil {
			return err
		}
		if kind := jsonscan.KindOf(raw); kind != jsonscan.Bool {
			return r.at(at, fmt.Sprintf("expected true or false, found %v", kind))
		}
		*into = raw[0] == 't'
		return nil
	}
}

func (r *reader) optionalBool(into **bool) func() error {
	return func() error {
		*into = new(bool)
		return r.bool(*into)()
	}
}

func (r *reader) number(into *json.Number) func() error {
	return func() error {
		raw, err := r.scan.Number()
		*into = json.Number(raw)
		return err
	}
}

func (r *reader) raw(into *json.RawMessage) func() error {
	return func() error {
		raw, err := r.scan.Value()
		*into = bytes.Clone(raw)
		return err
	}
}
