package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// A bridge is a process of dovetail serve.
type bridge struct {
	cmd *exec.Cmd
	url string
}

var servingLine = regexp.MustCompile(`^serving +(http://[0-9.:]+/mcp)`)

// startBridge starts a bridge over HTTP and waits until it prints its address.
func startBridge(ctx context.Context, program, config string) (*bridge, error) {
	cmd := exec.CommandContext(ctx, program, "serve", "-config", config, "-http", "127.0.0.1:0", "-open")
	stderr, w, err := os.Pipe() // not StderrPipe, which a server that outlives the bridge would keep open
	if err != nil {
		return nil, err
	}
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if found := servingLine.FindStringSubmatch(lines.Text()); found != nil {
			go func() {
				for lines.Scan() { // the bridge must not block on a full pipe
				}
			}()
			return &bridge{cmd, found[1]}, nil
		}
		fmt.Fprintln(os.Stderr, lines.Text())
	}
	return nil, errors.Join(errors.New("the bridge does not print its address"), cmd.Wait())
}

// stop ends the bridge with SIGTERM. None of its servers may be left.
func (b *bridge) stop() error {
	running, err := b.descendants()
	if err != nil {
		return err
	}
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := b.cmd.Wait(); err != nil {
		return fmt.Errorf("the bridge ends with: %w", err)
	}
	for _, p := range running {
		if now, err := readProcess(p.id); err == nil && now.command == p.command && now.command != "" {
			err := fmt.Errorf("the bridge has not ended process %d: %s", p.id, p.command)
			return errors.Join(err, kill(p.id))
		}
	}
	return nil
}

// A process is a process of Linux.
type process struct {
	id, parent int
	command    string
}

// kill sends SIGKILL to processes.
func kill(ids ...int) error {
	var errs []error
	for _, id := range ids {
		p, err := os.FindProcess(id)
		if err == nil {
			err = p.Kill()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// descendants returns the processes that the bridge has started, and their descendants.
// Parents come first.
func (b *bridge) descendants() ([]process, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, folder := range folders {
		id, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		if p, err := readProcess(id); err == nil { // an error means that it has ended
			all = append(all, p)
		}
	}
	found := []process{{id: b.cmd.Process.Pid}}
	for i := 0; i < len(found); i++ {
		for _, p := range all {
			if p.parent == found[i].id {
				found = append(found, p)
			}
		}
	}
	return found[1:], nil
}

func readProcess(id int) (process, error) {
	folder := filepath.Join("/proc", strconv.Itoa(id))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return process{}, err
	}
	// pid (name) state ppid …; the name may contain any character.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return process{}, fmt.Errorf("process %d has no parent", id)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, err
	}
	command, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err != nil {
		return process{}, err
	}
	return process{id, parent, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))}, nil
}

// processesOf returns the processes of a server, one for each session: the server itself,
// or npx, which has started it.
func (b *bridge) processesOf(v testServer, launcher bool) ([]int, error) {
	all, err := b.descendants()
	if err != nil {
		return nil, err
	}
	parents := make(map[int]bool)
	for _, p := range all {
		parents[p.parent] = true
	}
	var found []int
	for _, p := range all {
		isLauncher, isServer := p.parent == b.cmd.Process.Pid, !parents[p.id]
		if strings.Contains(p.command, v.program) && (launcher && isLauncher || !launcher && isServer) {
			found = append(found, p.id)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the server %s has no process", v.alias)
	}
	return found, nil
}
