package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
)

// Servers behind a bridge, and the bridge itself, are killed while clients call. Each
// call has one outcome, and the ledger says that it is the truth: what is answered was
// executed, what is said not to have been executed was not, and nothing was twice.
// All is back by itself, and nothing is left.
func TestKills(t *testing.T) {
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors()
	k := newKillings(t)
	k.run(t, scaled(t, 10, 500), scaled(t, 4, 200))
	k.settle(t)
	settles(t, "goroutines", runtime.NumGoroutine, goroutines)
	settles(t, "descriptors", openDescriptors, descriptors)
}

// killings are a bridge in a process of its own, the servers behind it and the clients
// that call them.
type killings struct {
	books       ledger
	far, bridge *supervised
	callers     []*caller
	probe       *caller
	stopCalls   context.CancelFunc
	calling     sync.WaitGroup
	slowest     map[string]time.Duration // to be back, by what was killed
	served      map[string]int           // who answered last, by alias
}

func newKillings(t *testing.T) *killings {
	k := &killings{books: ledger(t.TempDir()), slowest: make(map[string]time.Duration), served: make(map[string]int)}
	ledger := ledgerVariable + "=" + string(k.books)
	farAddress, address := freeAddress(t), freeAddress(t)
	k.far = supervise(t, "bookkeeper", ledger, addressVariable+"="+farAddress)
	k.bridge = supervise(t, "bridge", ledger, addressVariable+"="+address, farVariable+"="+farAddress)

	ctx, cancel := context.WithCancel(t.Context())
	k.stopCalls = cancel
	t.Cleanup(func() {
		cancel()
		k.calling.Wait()
		for _, c := range append(k.callers, k.probe) {
			if c != nil {
				c.session.Close()
			}
		}
	})
	for i := range 8 {
		over, era := "streamable", client.Modern
		if i%2 == 1 {
			era = client.Legacy
		}
		if i%4 >= 2 {
			over = "ws"
		}
		k.callers = append(k.callers, newCaller(t, fmt.Sprint("caller ", i), over, "http://"+address, era))
	}
	k.probe = newCaller(t, "probe", "streamable", "http://"+address, client.Modern)
	for _, f := range far {
		k.returns(t, "start", f.alias, 0)
	}
	for _, c := range k.callers {
		for lane := range lanes {
			k.calling.Go(func() { c.calls(ctx, lane) })
		}
	}
	return k
}

// run kills so many servers and bridges, the former about evenly among the lives of the
// latter: a server that fails often is waited for longer.
func (k *killings) run(t *testing.T, servers, bridges int) {
	began := time.Now()
	for i := range bridges {
		n := (i+1)*servers/bridges - i*servers/bridges
		for j := range n {
			f := far[rand.IntN(len(far))]
			k.killServer(t, f.alias, f.stdio, j < n-1 || i%2 == 0)
		}
		k.killBridge(t)
		if t.Failed() {
			t.Fatalf("after %d kills of bridges", i+1)
		}
	}
	t.Logf("%d kills of servers and %d of bridges in %v; back at the latest after %v",
		servers, bridges, time.Since(began).Round(time.Millisecond), k.slowest)
}

// killServer kills who serves an alias, and sees that another does unless the bridge is
// to die too.
func (k *killings) killServer(t *testing.T, alias string, stdio, back bool) {
	victim := k.served[alias]
	if !stdio {
		victim = k.far.kill()
	} else if err := kill(victim); err != nil {
		t.Errorf("%s, process %d: %v", alias, victim, err)
	}
	if back {
		k.returns(t, "server", alias, victim)
		await(t, "nothing of the server is left", func() bool { return len(k.strays(t)) == 0 })
	}
}

// killBridge kills the bridge, and with it the servers that it has started.
func (k *killings) killBridge(t *testing.T) {
	answered := make([]int64, len(k.callers))
	victim := k.bridge.kill()
	for i, c := range k.callers {
		answered[i] = c.answered.Load()
	}
	began := time.Now()
	for _, f := range far {
		former := 0
		if f.stdio {
			former = k.served[f.alias]
		}
		k.returns(t, "bridge", f.alias, former)
	}
	for i, c := range k.callers {
		await(t, c.name+" is answered again", func() bool { return c.answered.Load() >= answered[i]+2*lanes })
	}
	k.slowest["all callers"] = max(k.slowest["all callers"], time.Since(began).Round(time.Millisecond))
	await(t, "nothing of the bridge is left", func() bool { return len(k.strays(t)) == 0 })
	if state, _ := processState(victim); state != "" {
		t.Errorf("the bridge that was killed is there, in state %s", state)
	}
}

// returns waits until an alias is served by another process than the former.
func (k *killings) returns(t *testing.T, what, alias string, former int) {
	began := time.Now()
	await(t, fmt.Sprintf("%s is back, which %d served", alias, former), func() bool {
		pid := k.probe.call(t.Context(), 0, alias)
		if pid == 0 || pid == former {
			return false
		}
		k.served[alias] = pid
		return true
	})
	k.slowest[what] = max(k.slowest[what], time.Since(began).Round(time.Millisecond))
}

// settle ends everything and compares what the callers were told with the ledger.
func (k *killings) settle(t *testing.T) {
	await(t, "nothing is left of what was killed", func() bool { return len(k.strays(t)) == 0 })
	k.stopCalls()
	k.calling.Wait()
	for _, c := range append(k.callers, k.probe) {
		c.session.Close()
	}
	k.bridge.stop()
	k.far.stop()
	await(t, "no process is left", func() bool {
		return !slices.ContainsFunc(k.books.processes(t), func(pid int) bool {
			state, parent := processState(pid)
			return state != "" && (state != "Z" || parent == os.Getpid())
		})
	})

	executed := k.books.executed(t)
	counts := make(map[outcome]int)
	calls := 0
	for _, c := range append(k.callers, k.probe) {
		for lane := range c.outcomes {
			for i, was := range c.outcomes[lane] {
				nonce := c.nonce(lane, i)
				times := executed[nonce]
				delete(executed, nonce)
				calls++
				counts[was]++
				switch {
				case times > 1:
					t.Errorf("%s: %v, and was executed %d times", nonce, was, times)
				case was == answered && times != 1:
					t.Errorf("%s: %v, and was never executed", nonce, was)
				case (was == notSent || was == rejected || was == refused) && times != 0:
					t.Errorf("%s: %v, and was executed", nonce, was)
				}
				if was == maybeExecuted && times == 1 {
					counts[maybeExecutedAndWas]++
				}
			}
		}
	}
	for nonce := range executed {
		t.Errorf("%s was executed, and nobody made the call", nonce)
	}
	t.Logf("%d calls: %v", calls, counts)
	if counts[answered] == 0 || counts[maybeExecuted] == 0 {
		t.Error("the calls did not meet the kills")
	}
}
