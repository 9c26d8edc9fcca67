package webclient

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/buffer"
)

// lent is a text in a buffer of a pool, and a way to find out whether that has been given
// back.
func lent(content string) (text *Text, isBack func() bool) {
	memory := new(buffer.Pool).Get()
	memory.Bytes = append(memory.Bytes, content...)
	text = new(Text)
	text.Hold(memory)
	return text, func() bool { return len(memory.Bytes) == 0 }
}

func open(t *testing.T, text *Text) io.ReadCloser {
	t.Helper()
	body, err := text.open()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A text is there until all are done with it, in whatever order, and each reads all of it.
func TestTextIsHeld(t *testing.T) {
	long := strings.Repeat("text", lentFrom/4)
	text, isBack := lent(long)
	first, second := open(t, text), open(t, text)
	first.Close()
	first.Close() // which counts once
	text.Release()
	if got, err := io.ReadAll(second); err != nil || string(got) != long || isBack() {
		t.Errorf("got %d bytes, %v; it was given back: %v", len(got), err, isBack())
	}
	second.Close()
	if !isBack() {
		t.Error("it was not given back")
	}
}

// Who looks at a text once it has been answered has it as long as that takes.
func TestTextIsRetained(t *testing.T) {
	long := strings.Repeat("x", lentFrom)
	text, isBack := lent(long)
	text.Retain()
	text.Release() // by whoever has made it
	if string(text.Bytes()) != long || isBack() {
		t.Error("it was given back while somebody needed it")
	}
	text.Release()
	if !isBack() {
		t.Error("it was not given back")
	}
}

// After the end, nobody reads what is somebody else's then.
func TestTextIsGone(t *testing.T) {
	text, isBack := lent(strings.Repeat("x", lentFrom))
	body := open(t, text)
	body.Close()
	if _, err := body.Read(make([]byte, 4)); err == nil {
		t.Error("a closed body was read")
	}
	if isBack() {
		t.Error("it was given back before its maker was done")
	}
	text.Release()
	if _, err := text.open(); err == nil || !isBack() {
		t.Errorf("it was opened after its end: %v; it was given back: %v", err, isBack())
	}
}

// The memory of a short one is given back at once, and net/http knows it for what it is.
func TestTextIsShort(t *testing.T) {
	text, isBack := lent(strings.Repeat("x", lentFrom-1))
	if !isBack() {
		t.Error("it was not given back")
	}
	for range 2 {
		if got, err := io.ReadAll(open(t, text)); err != nil || len(got) != lentFrom-1 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
	if body := open(t, text); reflect.TypeOf(body) != reflect.TypeOf(io.NopCloser(bytes.NewReader(nil))) {
		t.Errorf("it is read by a %T", body)
	}
}

// Whoever has no text may release it too.
func TestTextZero(t *testing.T) {
	new(Text).Release()
}
