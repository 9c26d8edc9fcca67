package process_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/server/process"
)

// guard is set by TestMain.
var guard *process.Guard

func TestMain(m *testing.M) {
	guard = process.Main()
	leaktest.Main(m)
}
