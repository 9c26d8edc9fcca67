package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Servers behind a bridge, and the bridge itself, are killed during calls. Each call has
// one outcome, which matches the log of executed calls. No call is executed twice.
// Everything restarts, and no process is left.
func TestKills(t *testing.T) {
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors()
	k := newKillTest(t)
	k.run(t, scaled(t, 10, 500), scaled(t, 4, 200))
	k.checkOutcomes(t)
	waitForCount(t, "goroutines", runtime.NumGoroutine, goroutines)
	waitForCount(t, "descriptors", openDescriptors, descriptors)
}

// A killTest has a bridge in its own process, the servers behind it, and the clients that
// call them.
type killTest struct {
	log              executionLog
	upstream, bridge *supervised
	callers          []*caller
	probe            *caller
	stopCalls        context.CancelFunc
	calling          sync.WaitGroup
	slowest          map[string]time.Duration // restart times, by what was killed
	served           map[string]int           // the last process that answered, by alias
}

func newKillTest(t *testing.T) *killTest {
	k := &killTest{log: executionLog(t.TempDir()), slowest: make(map[string]time.Duration), served: make(map[string]int)}
	logEnv := logVariable + "=" + string(k.log)
	upstreamAddress, address := freeAddress(t), freeAddress(t)
	k.upstream = supervise(t, "recorder", logEnv, addressVariable+"="+upstreamAddress)
	k.bridge = supervise(t, "bridge", logEnv, addressVariable+"="+address, upstreamVariable+"="+upstreamAddress)

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
	for _, f := range upstreams {
		k.returns(t, "start", f.alias, 0)
	}
	for _, c := range k.callers {
		for lane := range callsPerClient {
			k.calling.Go(func() { c.calls(ctx, lane) })
		}
	}
	return k
}

// run kills servers and bridges. The kills of servers are spread evenly over the lives of
// the bridges, because the restart delay of a server grows with its failures.
func (k *killTest) run(t *testing.T, servers, bridges int) {
	began := time.Now()
	for i := range bridges {
		n := (i+1)*servers/bridges - i*servers/bridges
		for j := range n {
			f := upstreams[rand.IntN(len(upstreams))]
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

// killServer kills the server of an alias. It waits for the next one unless the bridge is
// to be killed too.
func (k *killTest) killServer(t *testing.T, alias string, stdio, back bool) {
	victim := k.served[alias]
	if !stdio {
		victim = k.upstream.kill()
	} else if err := kill(victim); err != nil {
		t.Errorf("%s, process %d: %v", alias, victim, err)
	}
	if back {
		k.returns(t, "server", alias, victim)
		await(t, "nothing of the server is left", func() bool { return len(k.orphans(t)) == 0 })
	}
}

// killBridge kills the bridge and waits until all callers get responses again.
func (k *killTest) killBridge(t *testing.T) {
	answered := make([]int64, len(k.callers))
	victim := k.bridge.kill()
	for i, c := range k.callers {
		answered[i] = c.answered.Load()
	}
	began := time.Now()
	for _, f := range upstreams {
		former := 0
		if f.stdio {
			former = k.served[f.alias]
		}
		k.returns(t, "bridge", f.alias, former)
	}
	for i, c := range k.callers {
		await(t, c.name+" is answered again", func() bool { return c.answered.Load() >= answered[i]+2*callsPerClient })
	}
	k.slowest["all callers"] = max(k.slowest["all callers"], time.Since(began).Round(time.Millisecond))
	await(t, "nothing of the bridge is left", func() bool { return len(k.orphans(t)) == 0 })
	if state, _ := processState(victim); state != "" {
		t.Errorf("the bridge that was killed is there, in state %s", state)
	}
}

// returns waits until another process than the former serves an alias.
func (k *killTest) returns(t *testing.T, what, alias string, former int) {
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

// checkOutcomes ends all processes and compares the outcomes of the callers with the log.
func (k *killTest) checkOutcomes(t *testing.T) {
	await(t, "nothing is left of what was killed", func() bool { return len(k.orphans(t)) == 0 })
	k.stopCalls()
	k.calling.Wait()
	for _, c := range append(k.callers, k.probe) {
		c.session.Close()
	}
	k.bridge.stop()
	k.upstream.stop()
	await(t, "no process is left", func() bool {
		return !slices.ContainsFunc(k.log.processes(t), func(pid int) bool {
			state, parent := processState(pid)
			return state != "" && (state != "Z" || parent == os.Getpid())
		})
	})

	executed := k.log.executed(t)
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
		t.Errorf("%s was executed without a caller", nonce)
	}
	t.Logf("%d calls: %v", calls, counts)
	if counts[answered] == 0 || counts[maybeExecuted] == 0 {
		t.Error("the calls did not meet the kills")
	}
}

// An outcome is what a caller learns about its call.
type outcome string

const (
	answered            outcome = "answered"
	notSent             outcome = "not sent"
	rejected            outcome = "rejected"
	refused             outcome = "tool unknown at the moment"
	maybeExecuted       outcome = "maybe executed"
	maybeExecutedAndWas outcome = "of these executed"
	wrong               outcome = "wrong"
)

// A caller makes calls and records the outcomes.
type caller struct {
	testing.TB
	name     string
	session  *client.Session
	outcomes [callsPerClient][]outcome
	answered atomic.Int64
}

func newCaller(t testing.TB, name, over, url string, era client.Era) *caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c := &caller{TB: t, name: name}
	for {
		session, err := client.Connect(ctx, dialerOf(over, url), &client.Options{Era: era, Limits: client.Limits{Reconnects: -1}})
		if err == nil {
			c.session = session
			return c
		}
		select {
		case <-time.After(20 * time.Millisecond): // the bridge is starting
		case <-ctx.Done():
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// calls calls the upstreams in turn until ctx ends. It completes the last call.
func (c *caller) calls(ctx context.Context, lane int) {
	for i := lane; ctx.Err() == nil; i++ {
		c.call(context.WithoutCancel(ctx), lane, upstreams[i%len(upstreams)].alias)
	}
}

func (c *caller) nonce(lane, i int) string { return fmt.Sprintf("%s.%d.%d", c.name, lane, i) }

// call makes one call and returns the process that has answered, 0 if none has.
func (c *caller) call(ctx context.Context, lane int, alias string) (pid int) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errHangs)
	defer cancel()
	nonce := c.nonce(lane, len(c.outcomes[lane]))
	result, err := c.session.CallTool(ctx, bridge.Name(alias, "record"), echoIn{nonce}, nil)
	was := wrong
	if err == nil {
		text, by, _ := strings.Cut(textOf(result), " by ")
		if pid, _ = strconv.Atoi(by); text == nonce && pid != 0 {
			was = answered
			c.answered.Add(1)
		}
	} else {
		was = outcomeOf(err)
	}
	if was == wrong {
		c.Errorf("%s to %s: %v, answered by %d", nonce, alias, err, pid)
	}
	c.outcomes[lane] = append(c.outcomes[lane], was)
	return pid
}

var errHangs = errors.New("the call hangs")

// outcomeOf returns the outcome that an error describes.
func outcomeOf(err error) outcome {
	if errors.Is(err, errHangs) || errors.Is(err, context.DeadlineExceeded) {
		return wrong
	}
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
		return map[jsonrpc.Delivery]outcome{
			jsonrpc.NotSent: notSent, jsonrpc.MaybeExecuted: maybeExecuted, jsonrpc.Rejected: rejected,
		}[failed.Delivery]
	}
	said, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return wrong
	}
	var data struct{ Type, Executed string }
	switch err := json.Unmarshal(said.Data, &data); {
	case err == nil && data.Executed == "no":
		return notSent
	case err == nil && data.Executed == "maybe":
		return maybeExecuted
	case said.Code == jsonrpc.InvalidParams && strings.Contains(said.Message, "unknown tool"):
		return refused // a new bridge does not know the tools of a server that is not running
	}
	return wrong
}

// An executionLog is a directory with files to which processes write before they act. A
// killed process does not lose what it has written.
type executionLog string

const (
	// logVariable holds the directory of the log.
	logVariable = "SOAK_LOG"

	processFile = "processes"
	callFile    = "calls"
)

// logStart logs that this process has started.
func (l executionLog) logStart() error { return l.append(processFile, strconv.Itoa(os.Getpid())) }

// logCall logs that a call is executed.
func (l executionLog) logCall(nonce string) error { return l.append(callFile, nonce) }

// append appends a line with one write, so that lines of different processes do not mix.
func (l executionLog) append(in, line string) error {
	file, err := os.OpenFile(filepath.Join(string(l), in), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line + "\n")
	return err
}

// processes returns the processes that have started.
func (l executionLog) processes(t *testing.T) (pids []int) {
	t.Helper()
	for _, line := range l.lines(t, processFile) {
		pid, err := strconv.Atoi(string(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// executed returns how often each call was executed.
func (l executionLog) executed(t *testing.T) map[string]int {
	t.Helper()
	times := make(map[string]int)
	for _, nonce := range l.lines(t, callFile) {
		times[string(nonce)]++
	}
	return times
}

func (l executionLog) lines(t *testing.T, in string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(l), in))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

// orphans returns zombies, and servers whose bridge has ended.
func (k *killTest) orphans(t *testing.T) (orphans []string) {
	upstream, bridge := k.upstream.pid(), k.bridge.pid()
	for _, pid := range k.log.processes(t) {
		state, parent := processState(pid)
		switch {
		case state == "" || pid == upstream:
		case state == "Z" && parent != bridge && parent != os.Getpid(): // its parent is the system's
		case state != "Z" && parent == bridge:
		default:
			orphans = append(orphans, fmt.Sprintf("process %d, in state %s, of %d", pid, state, parent))
		}
	}
	return orphans
}

// await waits until a condition is true.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, timeout)
		}
		<-time.After(10 * time.Millisecond) // other processes cannot be waited for
	}
}

// waitForCount waits until a count is about as small as before.
func waitForCount(t testing.TB, what string, count func() int, before int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for count() > before+5 && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond)
	}
	if now := count(); now > before+5 {
		t.Errorf("there are %d %s, there were %d", now, what, before)
	} else {
		t.Logf("%d %s before, %d after", before, what, now)
	}
}

func openDescriptors() int {
	descriptors, _ := os.ReadDir("/proc/self/fd")
	return len(descriptors)
}

// processState returns the kernel's letter for the state of a process, "" if it does not
// exist, and its parent.
func processState(pid int) (state string, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	_, _ = fmt.Sscan(rest, &state, &parent)
	return state, parent
}

func kill(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer process.Release()
	return process.Kill()
}
