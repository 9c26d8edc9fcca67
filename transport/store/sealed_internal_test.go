package store

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/token"
)

// A Watch forgets the names of values that have expired, and no others.
func TestWatchedNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watchedNames
		w.add("kept", sealedValue{key: "kept"})
		w.add("long", sealedValue{key: "long", ttl: 1 << 62})
		for i := range 10_000 {
			w.add(fmt.Sprint(i), sealedValue{key: "key", ttl: time.Second})
			<-time.After(time.Second)
			if len(w.names) > 300 {
				t.Fatalf("%d names after %d values that live for a second", len(w.names), i+1)
			}
		}
		if w.names["kept"].name != "kept" || w.names["long"].name != "long" {
			t.Error("the names of values that have not expired are forgotten")
		}
	})
}

// Authentic content that is cut is refused.
func TestCutNamed(t *testing.T) {
	whole := appendNamed(nil, "name", []byte("data"))
	for size := range len("name") + 1 {
		if name, data, err := cutNamed(whole[:size]); err == nil {
			t.Errorf("%d bytes: %q, %q", size, name, data)
		}
	}
	if name, data, err := cutNamed(whole); err != nil || name != "name" || string(data) != "data" {
		t.Errorf("%q, %q, %v", name, data, err)
	}
}

// So is an authentic value that is cut.
func TestCutValue(t *testing.T) {
	ring, err := token.NewRing(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	s := &sealed{ring: ring}
	whole, err := s.open(s.sealValue("n", sealedValue{key: "name", ttl: time.Hour, value: []byte("data")}), token.Binding("value", "n"))
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) + 1 {
		v, err := s.openValue("n", ring.SealBytes(whole[:size], token.Binding("value", "n")))
		switch cut := size < len(whole)-len("data"); {
		case cut && err != ErrForged:
			t.Errorf("%d bytes: %+v, %v", size, v, err)
		case !cut && (err != nil || v.key != "name" || v.ttl != time.Hour):
			t.Errorf("%d bytes: %+v, %v", size, v, err)
		}
	}
}
