package frontend_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
