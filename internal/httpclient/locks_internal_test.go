package httpclient

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// A body is freed when its last user has released it, and not before.
func TestBodyConcurrently(t *testing.T) {
	const n = 200
	body, isFreed := pooled(strings.Repeat("x", minPooled))
	for range n {
		body.Retain()
	}
	racetest.Together(n,
		func(int) { body.Retain() },
		func(int) { body.Release() },
		func(int) {
			if _, err := body.open(); err != nil {
				t.Error(err)
			}
		},
	)
	for range 2*n + 1 {
		if isFreed() {
			t.Fatal("a body is freed while it has users")
		}
		body.Release()
	}
	if !isFreed() {
		t.Error("a body without users is not freed")
	}
}

// A body is read once, by whoever reads it, and not after it was closed.
func TestBodyReaderConcurrently(t *testing.T) {
	body, isFreed := pooled(strings.Repeat("x", minPooled))
	open := func() io.ReadCloser {
		r, err := body.open()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	var sum [2]int
	read := func(i int) func(int) {
		return func(int) {
			got, err := r.Read(make([]byte, minPooled/100))
			if err != nil && err != io.EOF {
				t.Error(err)
			}
			sum[i] += got
		}
	}
	racetest.Together(200, read(0), read(1))
	if all := sum[0] + sum[1]; all != minPooled {
		t.Errorf("%d bytes were read, want %d", all, minPooled)
	}
	r.Close()
	for range 50 {
		r := open()
		racetest.Together(2, func(int) { _, _ = r.Read(make([]byte, 8)) }, func(int) { r.Close() }, func(int) { r.Close() })
		if _, err := r.Read(make([]byte, 8)); !errors.Is(err, errReleased) {
			t.Errorf("reading a closed body: %v", err)
		}
	}
	if isFreed() {
		t.Error("a body is freed while it has a user")
	}
	if body.Release(); !isFreed() {
		t.Error("a body without users is not freed")
	}
}

// Idle connections are closed when the last user has left.
func TestClientConcurrently(t *testing.T) {
	const n = 200
	c := New("http://localhost", nil, nil, nil)
	closed := 0 // no lock
	c.closeIdle = func() { closed++ }
	acquire := func(int) {
		if err := c.Acquire(); err != nil {
			t.Error(err)
		}
	}
	acquire(0)
	racetest.Together(n, acquire, acquire, func(int) {
		acquire(0)
		c.Release()
	})
	for range 2 * n {
		c.Release()
	}
	if closed != 0 || c.users != 1 {
		t.Errorf("closed %d times; %d users, want 1", closed, c.users)
	}
	c.Release()
	racetest.Together(n, func(int) { acquire(0); c.Release() }, func(int) { acquire(0); c.Release() })
	if closed == 0 || c.users != 0 {
		t.Errorf("closed %d times; %d users, want none", closed, c.users)
	}
}
