package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A fleet is the processes of the replicas.
type fleet struct {
	balancer *balancer
	counts   *ledger
	env      []string
	replicas [3]*replica
}

// A replica is one process. It ends when its standard input ends.
type replica struct {
	process *exec.Cmd
	stdin   io.Closer
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
	process.Env, process.Stderr = f.env, os.Stderr
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
	f.replicas[i] = &replica{process, stdin}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("replica %d does not start: %w", i+1, err)
	}
	f.balancer.set(i, strings.TrimSpace(address))
	return nil
}

// killSome kills random replicas, and starts another process in place of each.
func (f *fleet) killSome(ctx context.Context, kills int, pause time.Duration) error {
	for range kills {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		i := rand.IntN(len(f.replicas))
		end := f.counts.beginOutage()
		if err := f.replicas[i].process.Process.Kill(); err != nil {
			return err
		}
		_ = f.replicas[i].process.Wait() // it says that the process was killed
		err := f.startOne(ctx, i)
		end()
		if err != nil {
			return err
		}
		f.counts.say("killed", i)
	}
	return nil
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

func (f *fleet) stop() {
	for _, r := range f.replicas {
		if r != nil {
			_ = r.process.Process.Kill() // it may have ended
			_ = r.process.Wait()
		}
	}
}
