package oauth

import (
	"testing"
	"time"
)

func TestAnswerCache(t *testing.T) {
	c, now := newAnswerCache[*Grant](3), time.Now()
	key := func(b byte) (k [32]byte) { k[0] = b; return k }
	has := func(b byte, at time.Duration, want bool) {
		t.Helper()
		if _, got := c.find(key(b), now.Add(at)); got != want {
			t.Errorf("%d after %v: %t", b, at, got)
		}
	}
	c.keep(key(1), &Grant{}, now.Add(time.Minute))
	c.keep(key(2), &Grant{}, now.Add(time.Second))
	c.keep(key(3), &Grant{}, now.Add(time.Minute))
	has(1, time.Minute-1, true)
	has(2, time.Second-1, true)
	has(2, time.Second, false)
	has(3, time.Minute, false)
	c.keep(key(1), &Grant{}, now.Add(time.Hour)) // again
	for b := range byte(3) {
		c.keep(key(4+b), &Grant{}, now.Add(time.Hour))
	}
	has(1, 0, false)
	has(4, 0, true)
	if len(c.byKey) != 3 || c.oldest.Len() != 3 {
		t.Errorf("%d and %d are kept", len(c.byKey), c.oldest.Len())
	}
}
