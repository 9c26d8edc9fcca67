package approval

import (
	"testing"
	"time"
)

// A remembered approval in memory ends when either clock says so: the monotonic clock may stop while the
// machine sleeps, and the wall clock may be set back.
func TestRememberedByBothClocks(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name            string
		wall, monotonic time.Duration // to the end
		valid           bool
	}{
		{"both before the end", time.Minute, time.Minute, true},
		{"the machine has slept", -time.Minute, time.Minute, false},
		{"the wall clock was set back", time.Minute, -time.Minute, false},
	} {
		s := newGrants(&Options{})
		s.keep(Digest{}, rememberedApproval{"id", now.Add(-time.Hour).UnixMilli(), now.Add(test.wall).UnixMilli(), now.Add(test.monotonic)}, now)
		if got := s.lookUp(Digest{}, now) == "id"; got != test.valid {
			t.Errorf("%s: valid is %t, want %t", test.name, got, test.valid)
		}
	}
}
