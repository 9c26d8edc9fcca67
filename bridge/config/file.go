package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/bridge"
)

// Limits, in bytes except for maxServers.
const (
	// maxFile is the size of the largest file.
	maxFile = 1 << 20
	// maxServers is the largest number of servers in a file.
	maxServers = 256
	// maxValue is the length of the longest text after expansion. Linux accepts no longer
	// argument.
	maxValue = 128 << 10
	// maxExpanded is the largest total length of the texts of a server after expansion.
	maxExpanded = 1 << 20

	maxInputs  = 256 // in a file
	maxReports = 64  // errors, and as many warnings
)

// A File is the content of a configuration file.
type File struct {
	// Name is the path of the file. Relative paths in the file are relative to its folder.
	Name string
	// Servers are the servers in the order of the file, disabled ones included. Servers with
	// mistakes are left out; see [Parse].
	Servers []*Server
	// Inputs are the questions that ${input:ID} refers to.
	Inputs []*Input
	// Extra are the other members of the file.
	Extra map[string]json.RawMessage
	// Warnings are about members without effect, and about names that are not valid aliases. There are at most 64.
	Warnings []Warning

	text []byte // without the byte order mark
}

// An Input is a question to the user, as in VS Code.
type Input struct {
	// ID identifies the input in ${input:ID}.
	ID string
	// Type is "promptString", "pickString" or another type that the host knows.
	Type string
	// Description is the text to show.
	Description string
	// Default is the suggested answer.
	Default string
	// Password means that the answer must not be shown.
	Password bool
	// Options are the answers to choose from.
	Options []string
}

// Load reads and parses a file; see [Parse].
func Load(path string) (*File, error) {
	data, err := readFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return Parse(data, path)
}

// readFile reads a regular file of at most limit bytes. The error does not contain the path.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path) // opening a pipe could block forever
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it is longer than %d bytes", limit)
	}
	return data, nil
}

func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// Server returns the server with an alias, or nil.
func (f *File) Server(alias string) *Server {
	for _, s := range f.Servers {
		if s.Alias == alias {
			return s
		}
	}
	return nil
}

// Expand calls [Server.Expand] for each server that is not disabled. It returns the servers
// that could be expanded, in order, and the joined errors of the others.
func (f *File) Expand(ctx context.Context, e *Expander) ([]*Resolved, error) {
	var list []*Resolved
	var errs []error
	for _, s := range f.Servers {
		if s.Disabled {
			continue
		}
		r, err := s.Expand(ctx, e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, r)
	}
	return list, errors.Join(errs...)
}

// Bridge expands the servers and returns them for [bridge.New] and [bridge.Bridge.Update], in
// order, with the joined errors of those that cannot be used. opts may be nil.
func (f *File) Bridge(ctx context.Context, e *Expander, opts *DialOptions) ([]bridge.Config, error) {
	list, err := f.Expand(ctx, e)
	errs := []error{err}
	configs := make([]bridge.Config, 0, len(list))
	for _, r := range list {
		config, err := r.Bridge(opts)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		configs = append(configs, config)
	}
	return configs, errors.Join(errs...)
}

// Format prints the name of the file and the aliases, since other content may be secret.
func (f File) Format(s fmt.State, _ rune) {
	aliases := make([]string, len(f.Servers))
	for i, server := range f.Servers {
		aliases[i] = server.Alias
	}
	fmt.Fprintf(s, "%s: servers %q", f.Name, aliases)
}

// MarshalText returns the text that Format prints. encoding/json and log/slog use it.
func (f File) MarshalText() ([]byte, error) { return fmt.Append(nil, f), nil }

func (f *File) input(id string) *Input {
	if f == nil {
		return nil
	}
	for _, input := range f.Inputs {
		if input.ID == id {
			return input
		}
	}
	return nil
}

// folder returns the folder of the file.
func (f *File) folder() string {
	if f == nil {
		return "."
	}
	return filepath.Dir(f.Name)
}

// An Error is one mistake in a file. [Parse] and [Server.Expand] return up to 64, joined as
// by [errors.Join].
type Error struct {
	// File is the name of the file. Line and Column are the position, counted from 1, columns
	// in characters. Line is 0 if the server was not read from a file.
	File         string
	Line, Column int
	// Server is the alias of the server, and Field its member, such as args[1]. Each is "" if the error is not about a
	// server or a member.
	Server, Field string
	// Message describes the expected form. It contains no values.
	Message string
	// Err is the cause, or nil.
	Err error
}

// Error returns all fields on one line.
func (e *Error) Error() string {
	var b strings.Builder
	if b.WriteString(e.File); e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if e.Server != "" {
		b.WriteString(": server " + e.Server)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	b.WriteString(": " + e.Message)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A Warning is about a member of a file that has no effect.
type Warning struct {
	// Line and Column are the position, counted from 1, columns in characters.
	Line, Column int
	// Path is the path of the member, such as servers.github.icon.
	Path string
	// Message describes the problem.
	Message string
}

// String returns all fields on one line.
func (w Warning) String() string {
	return fmt.Sprintf("%d:%d: %s: %s", w.Line, w.Column, w.Path, w.Message)
}

// newError returns an error at a byte offset. f may be nil.
func (f *File) newError(at int, server, field, message string, cause error) *Error {
	e := &Error{Server: server, Field: field, Message: message, Err: cause}
	if f != nil {
		e.File = f.Name
		e.Line, e.Column = f.position(at)
	}
	return e
}

// position returns the line and column of a byte offset.
func (f *File) position(offset int) (line, column int) {
	before := f.text[:min(offset, len(f.text))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[begin:])
}
