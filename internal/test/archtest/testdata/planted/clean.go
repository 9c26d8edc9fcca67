// Package planted breaks no rule, and comes close.
package planted

import (
	"errors"

	"github.com/dovetail-go/dovetail/mcp"
)

// ErrLate says that the server did not initialize in time.
var ErrLate = errors.New("the server did not initialize in time")

// Method returns a method that both eras have. To do so takes no goroutine.
func Method() string { return mcp.MethodToolsCall }
