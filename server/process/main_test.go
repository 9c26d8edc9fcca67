package process_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
	"github.com/dovetail-go/dovetail/server/process"
)

// guard is set before the tests run.
var guard *process.Guard

func TestMain(m *testing.M) {
	guard = process.Main()
	leak.Main(m)
}
