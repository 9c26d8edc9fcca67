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

// An idleness measures how much memory a server keeps for sessions in which nothing
// happens. The server has a process of its own.
type idleness struct {
	peer string
	work Work
}

func openIdle(p Peer, w Work) (gauge, error) {
	server, ok := p.(idler)
	if !ok {
		return nil, errAbsent
	}
	_, end, err := server.Handler(w) // it may be absent
	if err != nil {
		return nil, err
	}
	return &idleness{p.Name(), w}, end()
}

func (i *idleness) Close() error { return nil }

func (i *idleness) measure(ctx context.Context, _ time.Duration) (_ Sample, err error) {
	server, err := startIdler(ctx, i.peer, i.work)
	if err != nil {
		return Sample{}, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	open := &visitors{web: web, url: server.url, work: i.work}
	defer open.leave()
	if err := open.enter(ctx, 10); err != nil { // what is made once is not to count
		return Sample{}, err
	}
	before, err := server.memory(len(open.streams))
	if err != nil {
		return Sample{}, err
	}
	if err := open.enter(ctx, i.work.Sessions); err != nil {
		return Sample{}, err
	}
	after, err := server.memory(len(open.streams))
	return Sample{Bytes: float64(after-before) / float64(i.work.Sessions)}, err
}

// visitors are clients that open sessions, and listen, and do nothing.
type visitors struct {
	web     *http.Client
	url     string
	work    Work
	streams []io.Closer
}

// enter lets n more come.
func (v *visitors) enter(ctx context.Context, n int) error {
	defer v.web.CloseIdleConnections()
	for range n {
		id := ""
		if v.work.Era == Legacy {
			var err error
			if id, err = openSession(ctx, v.web, v.url); err != nil {
				return err
			}
		}
		if !v.work.Streams {
			continue
		}
		stream, err := openStream(ctx, v.web, v.url, id, v.work.Era)
		if err != nil {
			return err
		}
		v.streams = append(v.streams, stream)
	}
	return nil
}

func (v *visitors) leave() {
	for _, stream := range v.streams {
		stream.Close()
	}
	v.web.CloseIdleConnections()
}

// An idleServer is the process.
type idleServer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	url string
}

func startIdler(ctx context.Context, peer string, w Work) (*idleServer, error) {
	cmd, err := child(ctx, idleTask, peer, w)
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
	s := &idleServer{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

// memory is what the server has in use once it has so many connections.
func (s *idleServer) memory(connections int) (int, error) {
	if _, err := fmt.Fprintln(s.in, connections); err != nil {
		return 0, err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

func (s *idleServer) stop() error {
	s.in.Close()
	return s.cmd.Wait()
}

// idle is what the process does: it says its URL, and whenever it is told how many
// connections there should be, how much memory is in use.
func idle(p idler, w Work, in io.Reader, out io.Writer) error {
	handler, end, err := p.Handler(w)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var open atomic.Int64
	count := func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server := http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ConnState: count}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "http://%s/\n", listener.Addr())
	asked := bufio.NewScanner(in)
	for asked.Scan() {
		want, err := strconv.ParseInt(asked.Text(), 10, 64)
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
	err = errors.Join(end(), server.Close())
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// inUse is the memory of objects that are alive, and of stacks.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what pools keep outlives the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
