package approval_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
)

// TestGuard runs the tests of guards with direct calls.
func TestGuard(t *testing.T) { approvaltests.Suite{Guarded: approvaltests.Guarded}.Run(t) }
