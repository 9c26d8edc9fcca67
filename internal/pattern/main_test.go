package pattern_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
