package jsonscan

import (
	"bytes"
	"fmt"
	"testing"
)

// A key is compared with at most maxListed others, however many there are, and
// whatever their fingerprints: the cost of an object is linear in its size.
func TestKeysSearchNoLongLists(t *testing.T) {
	var keys Keys
	for i := range 10_000 {
		key := fmt.Appendf(nil, `"%08d-same-tail"`, i)
		if err := keys.Add(key, i); err != nil {
			t.Fatal(err)
		}
		if listed := min(keys.n, len(keys.few)) + len(keys.more); listed > maxListed {
			t.Fatalf("%d keys are listed after %d", listed, i+1)
		}
	}
	if len(keys.many) != 10_000 {
		t.Errorf("%d keys are in the map", len(keys.many))
	}
}

func TestKeysReset(t *testing.T) {
	var keys Keys
	for round := range 3 {
		for i := range 100 {
			if err := keys.Add(fmt.Appendf(nil, `"%d"`, i), i); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if keys.Add([]byte(`"99"`), 0) == nil || keys.Add([]byte(`"5"`), 0) == nil {
			t.Errorf("round %d: a duplicate was accepted", round)
		}
		keys.Reset()
	}
}

// Two keys with the same hash are still two keys.
func TestKeysWithOneHash(t *testing.T) {
	var keys Keys
	keys.index()
	a, b := []byte(`"a"`), []byte(`"b"`)
	keys.many[keys.slot(b)] = a // as if a had the hash of b
	if place := keys.slot(b); keys.many[place] != nil {
		t.Errorf("b was taken for %s", keys.many[place])
	}
	keys.many[keys.slot(b)] = b
	if got := keys.many[keys.slot(b)]; !bytes.Equal(got, b) {
		t.Errorf("found %s, want b", got)
	}
}
