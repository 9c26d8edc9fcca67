package config

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// An Expander finds the values of variables. The zero value knows the environment
// and files, and has no user to ask. Use one for each file: it remembers the user's
// answers by the ids of inputs. It must not be copied after its first use.
type Expander struct {
	// LookupEnv finds variables of the environment. Default os.LookupEnv.
	LookupEnv func(name string) (value string, ok bool)
	// Ask asks the user. It is called once for each input that a variable refers to,
	// even if several servers do; when it fails, the next one asks again. Without it
	// an input has its default, or no value.
	Ask func(ctx context.Context, input Input) (string, error)
	// Resolve finds the value of ${scheme:name} for schemes other than env, input and
	// file, such as a keyring; ok is false when there is none. Without it, such a
	// variable is an error.
	Resolve func(ctx context.Context, scheme, name string) (value string, ok bool, err error)
	// Workspace is ${workspaceFolder}, and what a relative cwd is relative to. By
	// default it is the folder of the file, or the one above when that one's name
	// begins with a dot, as .vscode and .cursor do.
	Workspace string
	// Verbatim leaves all texts as they stand and refuses what brings in more of this
	// machine: envFile, passEnv and inheritEnv. It is for servers that were not named by
	// this machine's user.
	Verbatim bool
	// Unset says what becomes of a variable that has no value and no default.
	Unset Unset

	mu      sync.Mutex
	answers map[string]*answer // by the input's id
}

// Unset is what becomes of a variable without a value.
type Unset int

const (
	// UnsetFails makes it an error.
	UnsetFails Unset = iota
	// UnsetEmpty puts nothing in its place.
	UnsetEmpty
	// UnsetLiteral leaves it as it stands: mind that ${TOKEN} may go out as a header.
	UnsetLiteral
)

// AskEnv answers an input for [Expander.Ask] where there is no user to ask, by the
// variable INPUT_ID of the environment: the input's id in upper case, with _ for what is
// neither letter nor digit. Where that is not set the default counts. The error is one of
// an input that has neither, and names the variable.
func AskEnv(_ context.Context, input Input) (string, error) {
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
	return "", fmt.Errorf("expected the answer in the variable %s of the environment", name)
}
