package config

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A variable is what stands between ${ and }.
type variable struct {
	scheme     string // "" for a plain name
	name       string
	byDefault  string
	hasDefault bool
}

// parseVariable reads a body; ok is false when it is none of a variable.
func parseVariable(body string) (v variable, ok bool) {
	body, v.byDefault, v.hasDefault = strings.Cut(body, ":-")
	scheme, name, hasScheme := strings.Cut(body, ":")
	if !hasScheme {
		v.name = body
		return v, isName(body)
	}
	v.scheme, v.name = scheme, name
	return v, isScheme(scheme) && name != "" && (scheme != "env" || isName(name))
}

// String is the variable as it is shown, without its default.
func (v variable) String() string {
	if v.scheme == "" {
		return "${" + v.name + "}"
	}
	return "${" + v.scheme + ":" + v.name + "}"
}

func isName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !isWord(r) })
}

func isScheme(text string) bool {
	return isName(text) && 'a' <= text[0] && text[0] <= 'z' && strings.ToLower(text) == text && !strings.Contains(text, "_")
}

// lookup finds the value of a variable; ok is false when it has none.
func (x *expansion) lookup(v variable) (text string, ok bool, err error) {
	switch v.scheme + ":" + v.name {
	case ":workspaceFolder":
		return x.workspace(), true, nil
	case ":workspaceFolderBasename":
		return filepath.Base(x.workspace()), true, nil
	case ":userHome":
		text, err = os.UserHomeDir()
		return text, err == nil, err
	case ":pathSeparator":
		return string(filepath.Separator), true, nil
	}
	switch v.scheme {
	case "", "env":
		text, ok = x.lookupEnv(v.name)
		return text, ok, nil
	case "input":
		return x.input(v.name)
	case "file":
		return x.file(v.name)
	}
	if x.expander.Resolve == nil {
		return "", false, errors.New("expected one of the schemes env, input and file: nothing else is known here")
	}
	return x.expander.Resolve(x.ctx, v.scheme, v.name)
}

func (x *expansion) lookupEnv(name string) (string, bool) {
	if lookup := x.expander.LookupEnv; lookup != nil {
		return lookup(name)
	}
	return os.LookupEnv(name)
}

func (x *expansion) input(id string) (string, bool, error) {
	input := x.server.file.input(id)
	switch {
	case input == nil:
		return "", false, errors.New(`it is not among the "inputs" of the file`)
	case x.expander.Ask == nil:
		return input.Default, input.Default != "", nil
	}
	text, err := x.expander.input(x.ctx, input)
	return text, err == nil, err
}

// file reads a value from a file, such as a mounted secret.
func (x *expansion) file(path string) (string, bool, error) {
	data, err := readFile(x.inFolder(path), MaxValue)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	return text, err == nil, err
}

func (x *expansion) inFolder(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(x.server.file.folder(), path)
}

func (x *expansion) workspace() string {
	if x.expander.Workspace != "" {
		return x.expander.Workspace
	}
	folder := x.server.file.folder()
	if absolute, err := filepath.Abs(folder); err == nil { // else the process's own folder is gone
		folder = absolute
	}
	if strings.HasPrefix(filepath.Base(folder), ".") {
		return filepath.Dir(folder)
	}
	return folder
}

// An answer is what the user says to an input.
type answer struct {
	asking  chan struct{} // holds a token while somebody asks, or reads the rest
	text    string
	isKnown bool
}

// input asks for an input, unless the answer is known. One asks at a time.
func (e *Expander) input(ctx context.Context, input *Input) (string, error) {
	a := e.answer(input.ID)
	select {
	case a.asking <- struct{}{}:
		defer func() { <-a.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if a.isKnown {
		return a.text, nil
	}
	text, err := e.Ask(ctx, *input)
	if err != nil {
		return "", err
	}
	a.text, a.isKnown = text, true
	return text, nil
}

func (e *Expander) answer(id string) *answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answers == nil {
		e.answers = make(map[string]*answer)
	}
	if e.answers[id] == nil {
		e.answers[id] = &answer{asking: make(chan struct{}, 1)}
	}
	return e.answers[id]
}
