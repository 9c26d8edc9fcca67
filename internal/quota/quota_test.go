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

var (
	ann, bob    = client("ann"), client("bob")
	local       = quota.Holder{} // such as over stdio
	here, there = network("192.0.2.1"), network("192.0.2.2")
)

func client(principal string) quota.Holder { return quota.HolderOf(principal, "") }

func network(address string) quota.Holder { return quota.HolderOf("", address) }

// A quotaStep acquires one, unless it says otherwise.
type quotaStep struct {
	holder  quota.Holder
	release bool
	refused bool
}

func TestQuota(t *testing.T) {
	for _, tc := range []struct {
		name         string
		most, perOne int
		steps        []quotaStep
	}{
		{"principals", 3, 2, []quotaStep{
			{holder: ann}, {holder: ann},
			{holder: ann, refused: true}, // two of hers
			{holder: local},
			{holder: local, refused: true}, // three in all
			{holder: ann, release: true},
			{holder: bob},
			{holder: ann, refused: true},
			{holder: local, release: true},
			{holder: ann},
		}},
		{"networks", 8, 2, []quotaStep{
			{holder: here}, {holder: here}, {holder: here}, {holder: here}, // half of the quota
			{holder: here, refused: true},
			{holder: there}, {holder: there},
			{holder: there, refused: true},
			{holder: local}, {holder: ann},
			{holder: ann, refused: true}, // eight in all
			{holder: here, release: true}, {holder: here, release: true}, {holder: local, release: true}, {holder: there, release: true},
			{holder: here, refused: true}, // half is used, and it has two
			{holder: there},
			{holder: here, release: true}, {holder: ann, release: true},
			{holder: here}, // less than half was used
			{holder: here, refused: true},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := quota.New("sessions", tc.most, tc.perOne)
			for i, step := range tc.steps {
				if step.release {
					q.Release(step.holder)
				} else if err := q.Acquire(step.holder); (err != nil) != step.refused {
					t.Errorf("step %d: %v", i, err)
				}
			}
		})
	}
}

// Concurrent calls never exceed the limit.
func TestQuotaConcurrently(t *testing.T) {
	s := quota.New("sessions", 10, 10)
	var got atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if s.Acquire(client(fmt.Sprint(i%5))) == nil {
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
			holder  quota.Holder
			refused bool
		}{{ann, false}, {ann, false}, {ann, true}, {bob, false}, {local, true}} {
			method := methods[i%2]
			if err := e.Begin(step.holder, method); (err != nil) != step.refused {
				t.Errorf("%s %d: %v", method, i, err)
			}
		}
		e.End(bob, methods[1])
		if err := e.Begin(local, methods[0]); err != nil {
			t.Errorf("%s after the end of a %s: %v", methods[0], methods[1], err)
		}
	}
}
