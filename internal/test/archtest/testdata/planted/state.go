// Package planted remembers things between two servers.
package planted

import (
	"strings"
	"sync"
)

var (
	count    int
	names    = map[string]bool{}
	settings struct{ verbose bool }
	lock     sync.Mutex // want "lock contains a lock or an atomic value"
	cached   struct {   // want "cached contains a lock or an atomic value"
		sync.Once
		text string
	}
	buffers = sync.Pool{}
	fixed   = strings.NewReplacer("a", "b")
)

func remember(name string) {
	count++                 // want "changes the package's variable count"
	names[name] = true      // want "variable names"
	delete(names, name)     // want "variable names"
	settings.verbose = true // want "variable settings"
	count := 0
	count = len(name)
	_ = count
}
