package streamable

import (
	"math"
	"testing"
)

// What is taken for an id of an event names one, and the same one when it is written
// again.
func FuzzParseEventID(f *testing.F) {
	named := &stream{name: "ABC234"}
	for _, id := range []string{
		named.eventID(0), named.eventID(1), named.eventID(math.MaxInt64), named.eventID(-1),
		"", "-", "-1", "a-", "a-b", "a-1-2", "a-1x", "a-+1", "a- 1", "a-0x1", "a-1_0", "a-007", "a-9223372036854775808", "\x00-1", "日本-1",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, number, ok := parseEventID(id)
		if !ok {
			if name != "" || number != 0 {
				t.Errorf("%q is refused with %q and %d", id, name, number)
			}
			return
		}
		if name == "" || number < 0 {
			t.Errorf("%q is event %d of stream %q", id, number, name)
		}
		again, same, ok := parseEventID((&stream{name: name}).eventID(number))
		if !ok || again != name || same != number {
			t.Errorf("%q is event %d of stream %q, which reads as %d of %q, %v", id, number, name, same, again, ok)
		}
	})
}
