package search_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/everywhere"
)

func TestMain(m *testing.M) { everywhere.Main(m) }
