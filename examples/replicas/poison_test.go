package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// poisonRestarts is how often the poisonous function may begin again.
const poisonRestarts = 1

// poison kills its own process, after the client has the id of the task.
func poison(ctx context.Context, _ *server.Request, in callIn) (string, error) {
	if err := execute(ctx, in.Call); err != nil {
		return "", err
	}
	<-time.After(500 * time.Millisecond)
	process, err := os.FindProcess(os.Getpid())
	if err != nil {
		return "", err
	}
	return "", process.Kill()
}

// keepAlive starts another process for each replica that ends, until ctx ends. Then it waits for all.
func (f *fleet) keepAlive(ctx context.Context, t *testing.T) (deaths *atomic.Int32, wait func()) {
	deaths = &atomic.Int32{}
	var keeping sync.WaitGroup
	for i := range f.replicas {
		keeping.Go(func() {
			for {
				_ = f.replicas[i].process.Wait() // it says that the process was killed
				if ctx.Err() != nil {
					return
				}
				deaths.Add(1)
				if err := f.startOne(ctx, i); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return deaths, keeping.Wait
}

// TestPoisonousTask runs a task that kills each replica which runs it. It ends as failed when it has used its restarts,
// and the replicas work again.
func TestPoisonousTask(t *testing.T) {
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			url, token := storeOf(t, engine)
			f, l := startFleet(t, 3, url, token)
			living, stop := context.WithCancel(ctx)
			deaths, wait := f.keepAlive(living, t)
			defer wait()
			defer func() { // those that keepAlive waits for
				stop()
				for _, r := range f.replicas {
					_ = r.process.Process.Kill() // it may have ended
				}
			}()
			session := connectTo(t, l, client.Modern)
			l.counts.begin(call{id: "poison", client: "client", restarts: poisonRestarts})
			id := ""
			_, err := client.CallAs[string](ctx, session, "poison", callIn{"poison"}, &client.CallOptions{OnTask: func(task *mcp.Task) { id = task.TaskID }})
			for isUnknown(err) && id != "" && ctx.Err() == nil {
				_, err = client.WaitAs[string](ctx, session.Task(id), nil)
			}
			if err == nil || !strings.Contains(err.Error(), "may have been executed") {
				t.Errorf("the poisonous task ends with %v", err)
			}
			if _, err := client.CallAs[string](ctx, session, "task", nil, nil); err != nil {
				t.Errorf("the next task ends with %v", err)
			}
			l.counts.mu.Lock()
			defer l.counts.mu.Unlock()
			if n := len(l.counts.calls["poison"].executions); n != 1+poisonRestarts || int(deaths.Load()) != n {
				t.Errorf("the function has begun %d times, and %d replicas have ended, want %d of both", n, deaths.Load(), 1+poisonRestarts)
			}
		})
	}
}
