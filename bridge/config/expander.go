package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// An Expander finds the values of variables. The zero value reads environment variables and
// files, and asks no user. Use one for each file, since it remembers answers by the ids of
// inputs. It must not be copied after its first use.
type Expander struct {
	// LookupEnv returns environment variables. Default: os.LookupEnv.
	LookupEnv func(name string) (value string, ok bool)
	// Prompt asks the user. It is called once for each input that is used, even by several
	// servers; after an error the next use calls it again. Default: an input has its
	// default, or no value.
	Prompt func(ctx context.Context, input Input) (string, error)
	// Resolve returns the value of ${scheme:name} for schemes other than env, input and
	// file; ok is false if there is none. Default: such a variable is an error.
	Resolve func(ctx context.Context, scheme, name string) (value string, ok bool, err error)
	// Workspace is the value of ${workspaceFolder} and the base of a relative cwd. Default:
	// the folder of the file, or its parent if the name of the folder begins with a dot, as
	// .vscode and .cursor do.
	Workspace string
	// NoExpand replaces no variables, and makes envFile, passEnv and inheritEnv errors. It
	// is for servers that are not configured by the user of this machine.
	NoExpand bool

	mu      sync.Mutex
	answers map[string]*cachedAnswer // by the ids of inputs
}

// PromptEnv is a function for [Expander.Prompt] of programs without a user. It returns the
// environment variable INPUT_ID, where ID is the id of the input in upper case with _ for
// special characters, or else the default of the input. If there is neither, the error names
// the variable.
func PromptEnv(_ context.Context, input Input) (string, error) {
	name := "INPUT_" + strings.Map(func(c rune) rune {
		if isWord(c) {
			return c
		}
		return '_'
	}, strings.ToUpper(input.ID))
	if text, ok := os.LookupEnv(name); ok {
		return text, nil
	}
	if input.Default != "" {
		return input.Default, nil
	}
	return "", fmt.Errorf("expected the answer in the environment variable %s", name)
}

// A variable is the parsed text between ${ and }.
type variable struct {
	scheme       string // "" for a plain name
	name         string
	defaultValue string
	hasDefault   bool
}

// parseVariable returns false if the text is not a variable.
func parseVariable(body string) (v variable, ok bool) {
	if body == "/" { // of VS Code and Cursor
		return variable{name: "pathSeparator"}, true
	}
	body, v.defaultValue, v.hasDefault = strings.Cut(body, ":-")
	scheme, name, hasScheme := strings.Cut(body, ":")
	if !hasScheme {
		v.name = body
		return v, isName(body)
	}
	v.scheme, v.name = scheme, name
	return v, isScheme(scheme) && name != "" && (scheme != "env" || isName(name))
}

// String returns the variable without its default.
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

// lookup returns the value of a variable; ok is false if it has none.
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
		return "", false, errors.New("expected one of the schemes env, input and file")
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
		return "", false, errors.New(`"inputs" of the file does not have it`)
	case x.expander.Prompt == nil:
		return input.Default, input.Default != "", nil
	}
	text, err := x.expander.input(x.ctx, input)
	return text, err == nil, err
}

// file returns the content of a file.
func (x *expansion) file(path string) (string, bool, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", false, err
		}
		path = filepath.Join(home, rest)
	}
	data, err := readFile(x.inFolder(path), maxValue)
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
	if absolute, err := filepath.Abs(folder); err == nil { // fails if the working directory was deleted
		folder = absolute
	}
	if strings.HasPrefix(filepath.Base(folder), ".") {
		return filepath.Dir(folder)
	}
	return folder
}

// A cachedAnswer is the answer of the user to an input.
type cachedAnswer struct {
	lock     chan struct{} // a mutex with cancellation; guards the other fields
	text     string
	answered bool
}

// input returns the answer to an input. It asks unless the answer is known.
func (e *Expander) input(ctx context.Context, input *Input) (string, error) {
	a := e.cachedAnswer(input.ID)
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if a.answered {
		return a.text, nil
	}
	text, err := e.Prompt(ctx, *input)
	if err != nil {
		return "", err
	}
	a.text, a.answered = text, true
	return text, nil
}

func (e *Expander) cachedAnswer(id string) *cachedAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answers == nil {
		e.answers = make(map[string]*cachedAnswer)
	}
	if e.answers[id] == nil {
		e.answers[id] = &cachedAnswer{lock: make(chan struct{}, 1)}
	}
	return e.answers[id]
}
