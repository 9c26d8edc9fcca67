package pin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/mcp"
)

// someDigest is a digest that is told apart by a number.
func someDigest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func TestPin(t *testing.T) {
	lock := pin.NewLock("")
	for _, server := range []string{"a", "b"} { // which have a tool of the same name
		if err := lock.Pin(server, "t", someDigest(len(server))); err != nil {
			t.Fatal(err)
		}
	}
	if err := lock.Pin("b", "t", someDigest(7)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ server, tool, digest string }{
		{"a", "t", someDigest(1)}, {"b", "t", someDigest(7)}, {"b", "u", ""}, {"c", "t", ""},
	} {
		if got, ok := lock.Pinned(want.server, want.tool); got != want.digest || ok != (want.digest != "") {
			t.Errorf("%s %s is pinned to %q, %t, want %q", want.server, want.tool, got, ok, want.digest)
		}
	}
}

func TestPinRefuses(t *testing.T) {
	long := strings.Repeat("a", pin.MaxName)
	for _, test := range []struct{ server, tool, digest, want string }{
		{"s", "t", "", "expected a digest"},
		{"s", "t", someDigest(1) + "0", "expected a digest"},
		{"s", "t", strings.ToUpper(someDigest(0xabc)), "expected a digest"},
		{"s", "t", strings.Replace(someDigest(1), "sha256", "sha512", 1), "expected a digest"},
		{"s", long + "a", someDigest(1), "tool has 257 bytes, and may have 256"},
		{long + "a", "t", someDigest(1), "server has 257 bytes, and may have 256"},
		{"s", "\xff", someDigest(1), "UTF-8"},
		{"s", "a\x00", someDigest(1), "NUL"},
	} {
		lock := pin.NewLock("")
		err := lock.Pin(test.server, test.tool, test.digest)
		if _, ok := lock.Pinned(test.server, test.tool); ok || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.10s %.10s %s: pinned is %t, the error %v, want %q", test.server, test.tool, test.digest, ok, err, test.want)
		}
	}
	if err := pin.NewLock("").Pin(long, long, someDigest(1)); err != nil {
		t.Error(err)
	}
}

func TestLockIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("pins as many tools as there may be")
	}
	p := newShop()
	tools := make([]string, pin.MaxPins-1)
	for i := range tools {
		tools[i] = tool(fmt.Sprint("t", i), "")
	}
	p.show(tools...)
	lock := pin.NewLock("")
	if err := lock.Pin("other", "t", someDigest(1)); err != nil {
		t.Fatal(err)
	}
	g := pin.Guarded(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
	if n := g.Catalog().Len(mcp.KindTool); n != len(tools) {
		t.Errorf("%d tools are listed, want %d", n, len(tools))
	}
	p.show(tool("t0", ""), tool("more", ""))
	wantTools(t, g, lock, "t0", "s more new")
	if err := lock.Accept("s", "more"); !errors.Is(err, pin.ErrFull) {
		t.Errorf("the error is %v, want %v", err, pin.ErrFull)
	}
	if err := lock.Pin("other", "t", someDigest(2)); err != nil { // which was there
		t.Error(err)
	}
}

// TestAccept: all or none, and only what is pending.
func TestAccept(t *testing.T) {
	lock := pin.NewLock("")
	p := newShop(tool("a", ""), tool("b", ""), `{"name":"c","Name":"c"}`)
	g := pin.Guarded(p, "s", lock, &pin.Options{Logger: quiet()})
	wantTools(t, g, lock, "", "s a new", "s b new", "s c invalid")
	for _, names := range [][]string{{"a", "x"}, {"a", "c"}, {"x"}} {
		err := lock.Accept("s", names...)
		if err == nil || errors.Is(err, pin.ErrNotPending) != (names[len(names)-1] == "x") {
			t.Errorf("%q: the error is %v", names, err)
		}
	}
	if err := lock.Accept("other", "a"); !errors.Is(err, pin.ErrNotPending) {
		t.Errorf("the error is %v, want %v", err, pin.ErrNotPending)
	}
	wantTools(t, g, lock, "", "s a new", "s b new", "s c invalid")
	if err := lock.Accept("s"); err != nil {
		t.Error(err)
	}
	if err := lock.Accept("s", "a", "b"); err != nil {
		t.Fatal(err)
	}
	if waiting := lock.Pending(); len(waiting) != 1 { // before anybody looks again
		t.Errorf("pending are %+v", waiting)
	}
	wantTools(t, g, lock, "a b", "s c invalid")
	if err := lock.Accept("s", "a"); !errors.Is(err, pin.ErrNotPending) {
		t.Errorf("the error is %v, want %v", err, pin.ErrNotPending)
	}
}

// TestAcceptTakesWhatWasPending, not what the server makes of it meanwhile.
func TestAcceptTakesWhatWasPending(t *testing.T) {
	lock := pin.NewLock("")
	p := newShop(tool("a", "harmless"))
	g := pin.Guarded(p, "s", lock, &pin.Options{Logger: quiet()})
	wantTools(t, g, lock, "", "s a new")
	seen := lock.Pending()[0]
	p.show(tool("a", "harmful"))
	if err := lock.Accept("s", "a"); err != nil {
		t.Fatal(err)
	}
	wantTools(t, g, lock, "", "s a changed")
	wantTools(t, g, lock, "", "s a changed")

	// With the digest that was looked at, it does not matter what is pending now.
	if err := lock.Pin("s", "a", seen.Is); err != nil {
		t.Fatal(err)
	}
	wantTools(t, g, lock, "", "s a changed")
	p.show(tool("a", "harmless"))
	wantTools(t, g, lock, "a")
}
