package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"
)

// A coldStart builds a server in a new process each time: what a library has seen once
// it may know from then on.
type coldStart struct {
	peer    string
	work    Work
	program *coldProgram
}

func openCold(p Peer, w Work) (gauge, error) {
	if _, ok := p.(coldStarter); !ok {
		return nil, errAbsent
	}
	program, err := buildCold(context.Background(), w.Tools)
	if err != nil {
		return nil, err
	}
	return &coldStart{p.Name(), w, program}, nil
}

func (c *coldStart) measure(ctx context.Context, _ time.Duration) (Sample, error) {
	cmd, err := child(ctx, buildTask, c.peer, c.work)
	if err != nil {
		return Sample{}, err
	}
	cmd.Path, cmd.Args = c.program.path(), []string{c.program.path()}
	said, err := cmd.Output()
	if err != nil {
		return Sample{}, err
	}
	var s Sample
	return s, json.Unmarshal(said, &s)
}

func (c *coldStart) Close() error { return c.program.remove() }

// build is what the process does: it says the sample.
func build(p coldStarter, w Work, out io.Writer) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	server, err := p.Build(w)
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	if err != nil {
		return err
	}
	if server == nil {
		return fmt.Errorf("there is no server")
	}
	return json.NewEncoder(out).Encode(Sample{
		Rate:   1 / elapsed.Seconds(),
		Allocs: float64(after.Mallocs - before.Mallocs),
		Bytes:  float64(after.TotalAlloc - before.TotalAlloc),
	})
}
