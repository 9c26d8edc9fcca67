package session

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
