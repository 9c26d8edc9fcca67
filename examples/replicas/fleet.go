package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A fleet is the processes of the replicas.
type fleet struct {
	balancer *balancer
	counts   *ledger
	env      []string
	replicas []*replica
}

func newFleet(replicas int, balancer *balancer, counts *ledger, env []string) *fleet {
	f := &fleet{balancer: balancer, counts: counts, env: env}
	for range replicas {
		f.replicas = append(f.replicas, new(replica))
	}
	return f
}

// A replica is one process. It ends when its standard input ends.
type replica struct {
	mu      sync.Mutex // held while the process is killed, stopped or started
	process *exec.Cmd
	stdin   io.Closer
	address string
}

func (f *fleet) start(ctx context.Context) error {
	for i := range f.replicas {
		if err := f.startOne(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// startOne starts a replica. It gets requests when it has printed its address.
func (f *fleet) startOne(ctx context.Context, i int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	process := exec.CommandContext(ctx, program)
	process.Env, process.Stderr = append(slices.Clip(f.env), envReplica+"="+strconv.Itoa(i)), os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	f.replicas[i].process, f.replicas[i].stdin = process, stdin
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("replica %d does not start: %w", i+1, err)
	}
	f.replicas[i].address = strings.TrimSpace(address)
	f.balancer.set(i, f.replicas[i].address)
	return nil
}

// Faults are what happens to a fleet.
type faults struct {
	kills, stops int
	pause        time.Duration // before each
	stop         time.Duration // the longest stop, and four times the shortest
}

// inject kills and stops random replicas. Kills and stops are independent: while one replica is stopped, others
// are killed.
func (f *fleet) inject(ctx context.Context, faults faults) error {
	var killed, stopped error
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; n < faults.kills && killed == nil; n++ {
			killed = f.atRandom(ctx, faults.pause, f.kill)
		}
	})
	running.Go(func() {
		for n := 0; n < faults.stops && stopped == nil; n++ {
			stopped = f.atRandom(ctx, faults.pause, func(ctx context.Context, i int) error {
				return f.stop(ctx, i, faults.stop/4+rand.N(3*faults.stop/4))
			})
		}
	})
	running.Wait()
	return errors.Join(killed, stopped)
}

// atRandom calls do for a random replica that is neither stopped nor killed now.
func (f *fleet) atRandom(ctx context.Context, pause time.Duration, do func(context.Context, int) error) error {
	for {
		if err := wait(ctx, pause); err != nil {
			return err
		}
		if i := rand.IntN(len(f.replicas)); f.replicas[i].mu.TryLock() {
			defer f.replicas[i].mu.Unlock()
			return do(ctx, i)
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill kills a replica and starts another process in its place.
func (f *fleet) kill(ctx context.Context, i int) error {
	end := f.counts.beginOutage(i, &f.counts.kills)
	err := f.replicas[i].process.Process.Kill()
	_ = f.replicas[i].process.Wait() // it says that the process was killed
	end()
	if err == nil {
		err = f.startOne(ctx, i)
	}
	f.counts.say("killed", i)
	return err
}

// noticeAfter is when a balancer notices that a replica does not answer.
const noticeAfter = 100 * time.Millisecond

// stop stops a replica for some time: its process neither works nor ends, as on a machine that is overloaded.
func (f *fleet) stop(ctx context.Context, i int, duration time.Duration) error {
	end := f.counts.beginOutage(i, &f.counts.stops)
	defer end()
	r := f.replicas[i]
	if err := r.process.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := wait(ctx, noticeAfter)
	f.balancer.set(i, "")
	if err == nil {
		err = wait(ctx, duration-noticeAfter)
	}
	f.counts.say(fmt.Sprintf("stopped for %v", duration.Round(time.Millisecond)), i)
	defer f.balancer.set(i, r.address)
	return errors.Join(err, r.process.Process.Signal(syscall.SIGCONT))
}

// restartAll restarts the replicas one after the other, as for a new version: each gets no more
// requests, finishes its calls and ends. No call may fail.
func (f *fleet) restartAll(ctx context.Context) error {
	for i := range f.replicas {
		f.balancer.set(i, "")
		f.replicas[i].stdin.Close()
		if err := f.replicas[i].process.Wait(); err != nil {
			return fmt.Errorf("replica %d does not end in order: %w", i+1, err)
		}
		if err := f.startOne(ctx, i); err != nil {
			return err
		}
		f.counts.say("restarted", i)
	}
	return nil
}

// close ends the processes.
func (f *fleet) close() {
	for _, r := range f.replicas {
		if r.process != nil {
			_ = r.process.Process.Kill() // it may have ended
			_ = r.process.Wait()
		}
	}
}
