package quota_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
)

// Of many records, the first three are logged, and then one in ten seconds with the number of skipped records.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := quota.NewSamples(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})))
		for range 10_000 {
			s.Log(slog.LevelWarn, "malformed", "n", 1)
			s.Log(slog.LevelDebug, "not enabled")
		}
		<-time.After(10 * time.Second)
		for range 500 {
			s.Log(slog.LevelWarn, "malformed", "n", 2)
		}
		<-time.After(time.Minute)
		s.Log(slog.LevelWarn, "malformed", "n", 3)
		<-time.After(time.Minute)
		s.Log(slog.LevelWarn, "malformed", "n", 4)
		want := strings.Repeat("level=WARN msg=malformed n=1\n", 3) +
			"level=WARN msg=malformed n=2 skipped=9997\nlevel=WARN msg=malformed n=3 skipped=499\nlevel=WARN msg=malformed n=4\n"
		if log.String() != want {
			t.Errorf("the log is\n%s, want\n%s", log.String(), want)
		}
	})
}
