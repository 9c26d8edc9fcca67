package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// A registering builds a server in a new process each time, because libraries cache what they know about a
// type.
type registering struct {
	peer    string
	work    Work
	program *program
}

func openRegister(ctx context.Context, p Peer, w Work) (meter, error) {
	if p.Name() == bare {
		return nil, errAbsent
	}
	built, err := buildTypes(ctx, w.Tools)
	if err != nil {
		return nil, err
	}
	w.Program = built.path()
	return &registering{p.Name(), w, built}, nil
}

func (r *registering) measure(ctx context.Context, _ time.Duration) (s Sample, err error) {
	cmd, err := child(ctx, registerTask, r.peer, r.work)
	if err != nil {
		return s, err
	}
	out, err := cmd.Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

func (r *registering) Close() error { return r.program.remove() }

// register is what the process does. It prints the sample.
func register(p Peer, w Work, out io.Writer) error {
	before, err := processCPU(0)
	if err != nil {
		return err
	}
	server, err := p.Register(w)
	if err != nil {
		return err
	}
	after, err := processCPU(0)
	if err != nil {
		return err
	}
	if server == nil {
		return errors.New("no server")
	}
	return json.NewEncoder(out).Encode(Sample{CPU: after - before})
}
