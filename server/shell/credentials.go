package shell

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
)

const (
	// maxCredentials is the number of credentials in one [Credentials].
	maxCredentials = 64
	// maxCredential is the longest value of a credential, in bytes.
	maxCredential = 64 << 10

	maxCredentialName = 256 // bytes of a name, or of the name of a variable
)

// ErrTooManyCredentials is returned by [Credentials.Set] for one more than 64.
var ErrTooManyCredentials = errors.New("shell: too many credentials")

// Credentials are secrets, such as API keys, that commands get by name: a model names the
// credential in the arguments of run_command, run_background or session_open and never sees its
// value. The value is an environment variable of that command or session, and is replaced by process.Redacted in
// its output. This protects against accidents. A command that encodes the value, or sends it
// elsewhere, can still reveal it; restrict who may name which credential with a policy for the
// argument credentials.
//
// Each [Shell] has a Credentials. All methods may be called concurrently. Formatting
// a Credentials does not print values.
type Credentials struct {
	mu     sync.Mutex
	byName map[string]func() string // NAME=value; a function, so that formatting with reflection cannot print it
}

// Set adds or replaces a credential: commands that name it get the environment variable. The
// error is [ErrTooManyCredentials], or says which argument is invalid, without the value. The
// name has 1 to 256 bytes without control characters; the value has 1 to 64 KiB
// without NUL.
func (c *Credentials) Set(name, variable, value string) error {
	switch {
	case name == "" || len(name) > maxCredentialName || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("shell: the name of a credential: expected 1 to %d bytes without control characters", maxCredentialName)
	case !isVariable(variable):
		return fmt.Errorf("shell: the credential %.256q: expected the name of an environment variable: letters, digits and underscores", name)
	case value == "" || len(value) > maxCredential || strings.ContainsRune(value, 0):
		return fmt.Errorf("shell: the credential %.256q: expected a value of 1 to %d bytes without NUL", name, maxCredential)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName[name] == nil && len(c.byName) >= maxCredentials {
		return ErrTooManyCredentials
	}
	if c.byName == nil {
		c.byName = make(map[string]func() string)
	}
	c.byName[name] = func() string { return variable + "=" + value }
	return nil
}

// Delete removes a credential, if it exists. Running commands keep it.
func (c *Credentials) Delete(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byName, name)
}

// Len returns the number of credentials.
func (c *Credentials) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byName)
}

// secrets returns the environment variables of credentials.
func (c *Credentials) secrets(names []string) ([]string, error) {
	var env []string
	variables := make(map[string]bool)
	for _, name := range names {
		variable, ok := c.find(name)
		if !ok {
			return nil, fmt.Errorf("there is no credential %.40q", name)
		}
		key, _, _ := strings.Cut(variable, "=")
		if variables[key] {
			return nil, fmt.Errorf("two of the credentials are the variable %s: use one of them", key)
		}
		variables[key] = true
		env = append(env, variable)
	}
	return env, nil
}

func (c *Credentials) find(name string) (variable string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byName[name]; known != nil {
		return known(), true
	}
	return "", false
}

// isVariable reports whether name is a name of an environment variable (POSIX.1-2024, section
// 8.1).
func isVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= maxCredentialName
}
