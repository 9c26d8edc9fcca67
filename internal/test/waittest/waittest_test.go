package waittest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A recorder is a test that records its failure.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Errorf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func TestWaits(t *testing.T) {
	const late = 2 * waittest.Timeout
	waits := map[string]func(t testing.TB, takes time.Duration){
		"Receive": func(t testing.TB, takes time.Duration) {
			events := make(chan int, 1)
			time.AfterFunc(takes, func() { events <- 7 })
			if got := waittest.Receive(t, "it", events); got != 7 {
				t.Errorf("received %d, want 7", got)
			}
		},
		"Receive, closed": func(t testing.TB, takes time.Duration) {
			events := make(chan int)
			time.AfterFunc(takes, func() { close(events) })
			waittest.Receive(t, "it", events)
		},
		"Return": func(t testing.TB, takes time.Duration) {
			returned := false
			waittest.Return(t, "it", func() {
				<-time.After(takes)
				returned = true
			})
			if !returned {
				t.Errorf("the function has not returned")
			}
		},
		"Until": func(t testing.TB, takes time.Duration) {
			var happened atomic.Bool
			time.AfterFunc(takes, func() { happened.Store(true) })
			waittest.Until(t, "it", happened.Load)
		},
		"Within": func(t testing.TB, takes time.Duration) {
			waittest.Within(t, "it", func(ctx context.Context) {
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
			})
		},
	}
	for name, wait := range waits {
		for takes, want := range map[time.Duration]string{0: "", waittest.Timeout / 2: "", late: "waited 30s for it"} {
			t.Run(fmt.Sprintf("%s %v", name, takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &recorder{TB: t}
					began := time.Now()
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						wait(r, takes)
					}()
					<-ended
					if r.failed != want || time.Since(began).Round(time.Second) != min(takes, waittest.Timeout) {
						t.Errorf("after %v: %q, want %q", time.Since(began), r.failed, want)
					}
					<-time.After(late) // what still runs ends
				})
			})
		}
	}
}
