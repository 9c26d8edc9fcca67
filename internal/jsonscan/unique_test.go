package jsonscan_test

import (
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func TestUnique(t *testing.T) {
	for _, test := range []struct {
		text   string
		offset int // of the name that comes twice, -1 when there is none
	}{
		{`{}`, -1},
		{`{"a":1,"b":2}`, -1},
		{`[{"a":1},{"a":2}]`, -1},
		{`{"a":{"a":{"a":1}},"b":{"a":{"a":1}}}`, -1},
		{`{"a":[{"a":1},{"a":1}],"b":{}}`, -1},
		{`{"a":1,"a":2}`, 7},
		{`{"a":{},"a":2}`, 8},
		{`{"a":[1,{"b":[{}]}],"a":2}`, 20},
		{`{"a":{"b":1},"b":{"c":1,"d":{},"c":2}}`, 31},
		{`[[{"a":[{"a":{}}],"\u0061":2}]]`, 18},
		{`{"a\u0000":1}`, 1},
	} {
		whole, walker := jsonscan.NewUnique([]byte(test.text)), jsonscan.NewUnique([]byte(test.text))
		_, err := whole.Value()
		for _, err := range []error{err, walkValue(&walker)} {
			duplicate, _ := errors.AsType[*jsonscan.DuplicateError](err)
			switch {
			case test.offset < 0 && err != nil:
				t.Errorf("%s: %v", test.text, err)
			case test.offset >= 0 && (duplicate == nil || duplicate.Offset != test.offset):
				t.Errorf("%s: error %#v, want a duplicate at %d", test.text, err, test.offset)
			}
		}
	}
}

// TestUniqueAllocations checks that the memory for names is reused.
func TestUniqueAllocations(t *testing.T) {
	data := toolsOf(100)
	allocs := testing.AllocsPerRun(10, func() {
		s := jsonscan.NewUnique(data)
		if _, err := s.Value(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 20 {
		t.Errorf("%v allocations", allocs)
	}
}
