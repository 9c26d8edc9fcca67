package redis

import (
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A follower reports deleted entries, and only those, in whichever order pages and messages come.
func TestFollowerMisses(t *testing.T) {
	of := func(ids ...uint64) page {
		var p page
		for i, id := range ids {
			e := entry{Entry: store.Entry{ID: id}}
			if i > 0 {
				e.previous = ids[i-1]
			}
			p.entries, p.newest = append(p.entries, e), id
		}
		return p
	}
	var empty page
	for name, test := range map[string]struct {
		first  page
		during []uint64 // messages while the first page is read
		then   []uint64 // messages before the second page is read
		second page
		late   []uint64 // messages after the second page was read
		want   bool
	}{
		"one entry":                                    {first: empty, then: []uint64{1}, second: of(1)},
		"entries while an empty page is read":          {first: empty, during: []uint64{1, 2, 3}, second: of(1, 2, 3)},
		"entries while a page is read":                 {first: of(1), during: []uint64{1, 2, 3}, second: of(1, 2, 3)},
		"an entry after an empty page":                 {first: empty, second: empty, late: []uint64{1}},
		"a message after its entry":                    {first: empty, second: of(1)},
		"the first entry was deleted":                  {first: empty, then: []uint64{1, 2}, second: of(2), want: true},
		"the first entry was deleted, and its message": {first: empty, during: []uint64{1, 2}, second: of(2), want: true},
		"all were deleted":                             {first: empty, then: []uint64{1}, second: empty, want: true},
		"a known entry was deleted":                    {first: of(1), during: []uint64{1}, then: []uint64{2, 3}, second: of(3), want: true},
		"the stream begins again":                      {first: of(1), then: []uint64{2}, second: of(2)},
	} {
		f := &follower{wake: make(chan struct{}, 1), age: time.Hour}
		tell := func(ids []uint64) {
			for _, id := range ids {
				f.message(formatID(id))
			}
		}
		tell(test.during)
		f.advance(test.first)
		tell(test.then)
		second := test.second
		second.entries = slices.DeleteFunc(second.entries, func(e entry) bool { return e.ID <= f.position })
		appended := f.firstAppended()
		tell(test.late)
		if got := f.misses(second, appended); got != test.want {
			t.Errorf("%s: misses = %t, want %t", name, got, test.want)
		}
	}
}
