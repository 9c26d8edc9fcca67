package interop

import (
	"log/slog"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the SDKs have much to say
	leak.Main(m)
}
