package approval

import (
	"sync"
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

// Remembered approvals may be looked up, kept and forgotten at the same time.
func TestRememberedApprovalsAreConcurrent(t *testing.T) {
	s := newGrants(&Options{MaxOpen: 8})
	now := time.Now()
	valid := rememberedApproval{"id", now.UnixMilli(), now.Add(time.Hour).UnixMilli(), now.Add(time.Hour)}
	ended := rememberedApproval{"id", now.UnixMilli(), now.UnixMilli(), now}
	var group sync.WaitGroup
	for _, work := range []func(key Digest){
		func(key Digest) { s.keep(key, valid, now) },
		func(key Digest) { s.keep(key, ended, now) },
		func(key Digest) { s.lookUp(key, now) },
		s.forget,
	} {
		group.Go(func() {
			for i := range 1000 {
				work(Digest{byte(i % 16)})
			}
		})
	}
	group.Wait()
	for i := range 16 {
		s.forget(Digest{byte(i)})
	}
	if len(s.remembered) != 0 {
		t.Errorf("%d approvals are left", len(s.remembered))
	}
}
