package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// poisonRestarts is how often the poisonous function may begin again.
const poisonRestarts = 1

// poison kills its own process, after the client has the id of the task.
func poison(ctx context.Context, _ *server.Request, in jobIn) (string, error) {
	if err := execute(ctx, in.Job); err != nil {
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
			var executed atomic.Int32
			ledgerServer := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { executed.Add(1) }))
			defer ledgerServer.Close()
			counts := newLedger()
			balancer := newBalancer(3)
			front := httptest.NewServer(balancer)
			defer front.Close()
			living, killAll := context.WithCancel(ctx)
			fleet := &fleet{balancer: balancer, counts: counts, env: append(os.Environ(),
				envStore+"="+url, envToken+"="+token, envLedger+"="+ledgerServer.URL, envTasks+"=1")}
			if err := fleet.start(living); err != nil {
				killAll()
				fleet.stop()
				t.Fatal(err)
			}
			deaths, wait := fleet.keepAlive(living, t)
			defer wait()
			defer killAll()
			user := &taskUser{ledger: counts, url: front.URL + "/mcp", name: "ann"}
			run := func(tool string) (*mcp.Task, error) {
				raw, err := user.call(ctx, mcp.MethodToolsCall, fmt.Sprintf(`{"name":%q,"arguments":{"job":%q,"ask":false}}`, tool, tool))
				var got mcp.Task
				for err == nil {
					if err = got.UnmarshalJSON(raw); err != nil || got.Status.Ended() {
						break
					}
					select {
					case <-time.After(100 * time.Millisecond):
						raw, err = user.call(ctx, mcp.MethodTasksGet, fmt.Sprintf(`{"taskId":%q}`, got.TaskID))
					case <-ctx.Done():
						err = ctx.Err()
					}
				}
				return &got, err
			}
			got, err := run("poison")
			if err != nil || got.Status != mcp.TaskFailed || !strings.Contains(string(got.Error), "may have been executed") {
				t.Errorf("the poisonous task is %+v, %v", got, err)
			}
			if got, err := run("job"); err != nil || got.Status != mcp.TaskCompleted || !json.Valid(got.Result) {
				t.Errorf("the next task is %+v, %v", got, err)
			}
			if user.session != nil {
				user.session.Close()
			}
			if n := executed.Load(); n != 1+poisonRestarts || deaths.Load() != n {
				t.Errorf("the function has begun %d times, and %d replicas have ended, want %d of both", n, deaths.Load(), 1+poisonRestarts)
			}
		})
	}
}
