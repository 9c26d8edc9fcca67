package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A File is what a configuration file says, in its order.
type File struct {
	// Name is the path of the file. Relative paths in it are relative to its folder.
	Name string
	// Servers are the servers, disabled ones too.
	Servers []*Server
	// Inputs are what the user is asked for where ${input:ID} stands.
	Inputs []*Input
	// Extra are the other members of the file.
	Extra map[string]json.RawMessage
	// Warnings tell what was not understood and has no effect, 64 at the most.
	Warnings []Warning

	text []byte // without the byte order mark
}

// An Input is a question to the user, as VS Code has them.
type Input struct {
	// ID is the name by which servers refer to it.
	ID string
	// Type is "promptString", "pickString" or another kind that the host knows.
	Type string
	// Description is the text to show.
	Description string
	// Default is the answer that is suggested.
	Default string
	// Password says that the answer must not be shown.
	Password bool
	// Options are the answers to pick from.
	Options []string
}

// Load reads the file at a path: see [Parse].
func Load(path string) (*File, error) {
	data, err := readFile(path, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return Parse(data, path)
}

// readFile reads a regular file of at most limit bytes. Its error does not name it.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path) // opening something else may wait for ever
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, bare(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it is longer than %d bytes", limit)
	}
	return data, nil
}

// bare is an error of the file system without the path, which the caller names.
func bare(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// Server returns the server with that alias, nil when there is none.
func (f *File) Server(alias string) *Server {
	for _, s := range f.Servers {
		if s.Alias == alias {
			return s
		}
	}
	return nil
}

// Expand is [Server.Expand] for each server that is not disabled. It returns those
// that could be expanded, in order, and the errors of the others.
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

// Format prints the name of the file and the servers' aliases: what else stands in a
// file may be secret.
func (f File) Format(s fmt.State, _ rune) {
	aliases := make([]string, len(f.Servers))
	for i, server := range f.Servers {
		aliases[i] = server.Alias
	}
	fmt.Fprintf(s, "%s: servers %q", f.Name, aliases)
}

// MarshalText is what Format prints. JSON and logs are made of it too.
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

// folder is the one that the file is in.
func (f *File) folder() string {
	if f == nil {
		return "."
	}
	return filepath.Dir(f.Name)
}
