package httpclient

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/bufpool"
)

// pooled returns a body in a pooled buffer, and a function that reports whether the buffer
// has been freed.
func pooled(content string) (text *Body, isFreed func() bool) {
	memory := new(bufpool.Pool).Get()
	memory.Bytes = append(memory.Bytes, content...)
	text = new(Body)
	text.Hold(memory)
	return text, func() bool { return len(memory.Bytes) == 0 }
}

func open(t *testing.T, text *Body) io.ReadCloser {
	t.Helper()
	body, err := text.open()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A body is valid until its creator and all readers have released it.
func TestBodyIsHeld(t *testing.T) {
	long := strings.Repeat("text", minPooled/4)
	text, isFreed := pooled(long)
	first, second := open(t, text), open(t, text)
	first.Close()
	first.Close() // a second Close has no effect
	text.Release()
	if got, err := io.ReadAll(second); err != nil || string(got) != long || isFreed() {
		t.Errorf("got %d bytes, %v; it was given back: %v", len(got), err, isFreed())
	}
	second.Close()
	if !isFreed() {
		t.Error("it was not given back")
	}
}

// A body can be read after the response until it is released.
func TestBodyIsRetained(t *testing.T) {
	long := strings.Repeat("x", minPooled)
	text, isFreed := pooled(long)
	text.Retain()
	text.Release() // the creator's
	if string(text.Bytes()) != long || isFreed() {
		t.Error("it was given back while a reader needed it")
	}
	text.Release()
	if !isFreed() {
		t.Error("it was not given back")
	}
}

// A released body cannot be read.
func TestBodyIsGone(t *testing.T) {
	text, isFreed := pooled(strings.Repeat("x", minPooled))
	body := open(t, text)
	body.Close()
	if _, err := body.Read(make([]byte, 4)); err == nil {
		t.Error("a closed body was read")
	}
	if isFreed() {
		t.Error("it was given back before its maker was done")
	}
	text.Release()
	if _, err := text.open(); err == nil || !isFreed() {
		t.Errorf("it was opened after its end: %v; it was given back: %v", err, isFreed())
	}
}

// A short body is copied, and net/http recognizes its reader.
func TestBodyIsShort(t *testing.T) {
	text, isFreed := pooled(strings.Repeat("x", minPooled-1))
	if !isFreed() {
		t.Error("it was not given back")
	}
	for range 2 {
		if got, err := io.ReadAll(open(t, text)); err != nil || len(got) != minPooled-1 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
	if body := open(t, text); reflect.TypeOf(body) != reflect.TypeOf(io.NopCloser(bytes.NewReader(nil))) {
		t.Errorf("it is read by a %T", body)
	}
}

// An empty body may be released.
func TestBodyZero(t *testing.T) {
	new(Body).Release()
}
