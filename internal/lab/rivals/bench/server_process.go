package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A serverProcess is an HTTP server in a process of its own.
type serverProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	url string
}

// startServer returns errAbsent if the peer does not support the work.
func startServer(ctx context.Context, p Peer, w Work) (*serverProcess, error) {
	_, end, err := p.Handler(w)
	if err != nil {
		return nil, err
	}
	if err := end(); err != nil {
		return nil, err
	}
	cmd, err := child(ctx, serveWebTask, p.Name(), w)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &serverProcess{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

// memory returns the bytes in use as soon as the server has this number of connections.
func (s *serverProcess) memory(connections int) (int, error) {
	if _, err := fmt.Fprintln(s.in, connections); err != nil {
		return 0, err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

func (s *serverProcess) Close() error {
	s.in.Close()
	return s.cmd.Wait()
}

// serveWeb is what the process does. It prints its URL. For each number that it reads, it waits until it
// has this number of connections, and prints how much memory is in use.
func serveWeb(p Peer, w Work, in io.Reader, out io.Writer) error {
	handler, end, err := p.Handler(w)
	if err != nil {
		return err
	}
	var open atomic.Int64
	s, err := newSite(handler, func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, s.url)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		want, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return err
		}
		for deadline := time.Now().Add(10 * time.Second); open.Load() != want; {
			if time.Now().After(deadline) {
				return fmt.Errorf("%d connections, want %d", open.Load(), want)
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintln(out, inUse())
	}
	return errors.Join(end(), s.Close())
}

// inUse returns the bytes of live objects and of stacks.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // pools keep objects during the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
