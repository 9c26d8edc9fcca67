package mcp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Copies stay what they are, whatever comes after them, and whoever appends to one.
func TestCopies(t *testing.T) {
	kept := copies{left: 1 << 20}
	var names []string
	var schemas [][]byte
	text := func(i int) string { return fmt.Sprintf("%d%s", i, strings.Repeat("x", i*i%(2*maxShared))) }
	const all = 500
	for i := range all {
		names = append(names, kept.unquote([]byte(`"`+text(i)+`"`)))
		schemas = append(schemas, kept.clone([]byte(text(i))))
	}
	for _, schema := range schemas {
		_ = append(schema, "and more"...)
	}
	for i := range all {
		if names[i] != text(i) || string(schemas[i]) != text(i) {
			t.Fatalf("copy %d is now %.20q and %.20q", i, names[i], schemas[i])
		}
	}
	if got := kept.unquote([]byte(`"a\u0062\n"`)); got != "ab\n" {
		t.Errorf("got %q", got)
	}
}

// A block is no larger than what it may have to hold, and a large value is none's neighbour.
func TestCopiesKeepLittleElse(t *testing.T) {
	for _, test := range []struct{ left, size, want int }{
		{1 << 20, 10, sharedBlock}, {1 << 20, maxShared, sharedBlock}, {0, 10, 10}, {100, 10, 110},
	} {
		kept := copies{left: test.left}
		if kept.clone(make([]byte, test.size)); cap(kept.raw) != test.want {
			t.Errorf("%+v: a block of %d bytes", test, cap(kept.raw))
		}
		kept.unquote(bytes.Repeat([]byte{'"'}, test.size+2))
		if got := kept.text.Cap(); got < test.want || got > test.want*5/4+8 { // in classes of size
			t.Errorf("%+v: a block of %d bytes for strings", test, got)
		}
	}
	kept := copies{left: 1 << 20}
	large := bytes.Repeat([]byte{'"'}, maxShared+3)
	kept.clone(large)
	kept.unquote(large)
	if cap(kept.raw) != 0 || kept.text.Cap() != 0 {
		t.Error("a large value has become part of a block")
	}
}
