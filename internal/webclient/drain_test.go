package webclient_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/webclient"
)

// endless is a body without an end, which counts what was read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// until is a body that comes when its context has ended.
type until struct{ context.Context }

func (u until) Read([]byte) (int, error) {
	<-u.Done()
	return 0, u.Err()
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		short := strings.NewReader("short")
		webclient.Drain(short, cancel)
		webclient.Drain(http.NoBody, cancel)
		long := new(endless)
		webclient.Drain(long, cancel)
		if short.Len() > 0 || long.read != 64<<10 {
			t.Errorf("%d bytes of the short body are left, %d of the long one were read", short.Len(), long.read)
		}
		<-time.After(time.Hour)
		if ctx.Err() != nil {
			t.Error("what was read in time was cancelled")
		}
		began := time.Now()
		webclient.Drain(io.Reader(until{ctx}), cancel)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
