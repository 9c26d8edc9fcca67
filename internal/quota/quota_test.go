package quota_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestQuota(t *testing.T) {
	s := quota.New("sessions", 3, 2)
	for _, step := range []struct {
		principal string
		release   bool
		refused   bool
	}{
		{principal: "ann"}, {principal: "ann"},
		{principal: "ann", refused: true}, // two of hers
		{principal: ""},
		{principal: "", refused: true}, // three in all
		{principal: "ann", release: true},
		{principal: "bob"},
		{principal: "ann", refused: true},
		{principal: "", release: true},
		{principal: "ann"},
	} {
		if step.release {
			s.Release(step.principal)
			continue
		}
		if err := s.Acquire(step.principal); (err != nil) != step.refused {
			t.Errorf("%q: %v", step.principal, err)
		}
	}
}

// Concurrent calls never exceed the limit.
func TestQuotaConcurrently(t *testing.T) {
	s := quota.New("sessions", 10, 10)
	var got atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if s.Acquire(fmt.Sprint(i%5)) == nil {
				got.Add(1)
			}
		})
	}
	all.Wait()
	if got.Load() != 10 {
		t.Errorf("%d of 10 calls succeeded", got.Load())
	}
}

// Calls and subscriptions have limits of their own, also for one principal. Streams of events count as
// subscriptions; other requests about events count as calls.
func TestEndpoint(t *testing.T) {
	limits := transport.Limits{Calls: 3, CallsPerPrincipal: 2, Subscriptions: 3}.WithDefaults()
	e := quota.NewEndpoint(&limits)
	for _, methods := range [][2]string{
		{mcp.MethodToolsCall, mcp.MethodEventsPoll}, {mcp.MethodSubscriptionsListen, mcp.MethodEventsStream},
	} {
		for i, step := range []struct {
			principal string
			refused   bool
		}{{"ann", false}, {"ann", false}, {"ann", true}, {"bob", false}, {"", true}} {
			method := methods[i%2]
			if err := e.Begin(step.principal, method); (err != nil) != step.refused {
				t.Errorf("%s %d of %q: %v", method, i, step.principal, err)
			}
		}
		e.End("bob", methods[1])
		if err := e.Begin("", methods[0]); err != nil {
			t.Errorf("%s after the end of a %s: %v", methods[0], methods[1], err)
		}
	}
}
