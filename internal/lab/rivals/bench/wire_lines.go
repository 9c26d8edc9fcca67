package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
)

// newLineClient speaks in lines.
func newLineClient(s *script, r io.Reader, w io.Writer) *wireClient {
	request := append(slices.Clip(s.request), '\n')
	lines, line := bufio.NewReaderSize(r, 64<<10), make([]byte, len(s.whole))
	return newWireClient(oneByOne(func() error {
		_, err := w.Write(request)
		return err
	}), func() (wrong, end error) {
		if _, err := io.ReadFull(lines, line); err != nil {
			return nil, err
		}
		return same(line, s.whole), nil
	})
}

// serveLines answers lines until there are no more.
func serveLines(in io.Reader, out io.Writer, s *script) error {
	lines, line := bufio.NewReaderSize(in, 64<<10), make([]byte, len(s.request)+1)
	for {
		if _, err := io.ReadFull(lines, line); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		for _, answer := range s.lines {
			if _, err := out.Write(answer); err != nil {
				return err
			}
		}
	}
}

func wirePipe(s *script) Rig {
	requests, toServer := io.Pipe()
	answers, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- serveLines(requests, toClient, s)
		requests.Close()
	}()
	c := newLineClient(s, answers, toServer)
	return newRig(c.Do, c.wait, func() error {
		toServer.Close()
		answers.Close()
		if err := <-served; !errors.Is(err, io.ErrClosedPipe) {
			return err
		}
		return nil
	})
}

func (wire) Serve(ctx context.Context, w Work) error {
	s, err := newScript(ctx, w)
	if err != nil {
		return err
	}
	return serveLines(os.Stdin, os.Stdout, s)
}

func wireStdio(ctx context.Context, s *script, w Work) (Rig, error) {
	cmd, err := child(ctx, serveTask, wire{}.Name(), w)
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
	c := newLineClient(s, out, in)
	return newRig(c.Do, cmd.Wait, c.wait, in.Close), nil
}
