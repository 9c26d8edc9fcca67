package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// An operator sees the tasks and numbers of a server, and cancels tasks of any client.
func TestServerStatsAndTasks(t *testing.T) {
	inBubble(t, &server.Options{MaxTasks: 4, RetainedBytes: 1 << 20}, func(t *testing.T, c *taskClient) {
		server.AddTool(c.server, server.Tool{Name: "wait", Task: server.TaskRequired}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		ctx := t.Context()
		if tasks, err := c.server.Tasks(ctx, false); err != nil || len(tasks) > 0 {
			t.Errorf("before the first task, there are %+v %v", tasks, err)
		}
		if stats := c.server.Stats(); stats.Retained.Max != 1<<20 || stats.RunningTasks.Max != 0 {
			t.Errorf("the numbers are %+v", stats)
		}
		for _, operation := range []func(context.Context, string) error{c.server.CancelTask, c.server.RetryTask} {
			if err := operation(ctx, "x"); !errors.Is(err, server.ErrUnknownTask) {
				t.Errorf("before the first task, the error is %v", err)
			}
		}
		id := c.start("wait", `{}`)
		synctest.Wait()
		stats := c.server.Stats()
		if stats.RunningTasks.Used != 1 || stats.RunningTasks.Max != 4 || stats.TaskBytes.Used == 0 || stats.TaskBytes.Max != 1<<19 ||
			stats.Retained.Used < stats.TaskBytes.Used || stats.TaskAttempts != 1 {
			t.Errorf("the numbers are %+v", stats)
		}
		tasks, err := c.server.Tasks(ctx, true)
		if err != nil || len(tasks) != 1 || tasks[0].ID != id || tasks[0].Tool != "wait" || tasks[0].Status != mcp.TaskWorking || tasks[0].Waits || tasks[0].Attempts != 1 {
			t.Errorf("the tasks are %+v %v", tasks, err)
		}
		if err := c.server.RetryTask(ctx, id); !errors.Is(err, server.ErrTaskNotWaiting) {
			t.Errorf("a task that runs is retried: %v", err)
		}
		if err := c.server.CancelTask(ctx, id); err != nil {
			t.Error(err)
		}
		c.expect(id, mcp.TaskCancelled)
		if tasks, err := c.server.Tasks(ctx, true); err != nil || len(tasks) > 0 {
			t.Errorf("open are %+v %v", tasks, err)
		}
		if tasks, err := c.server.Tasks(ctx, false); err != nil || len(tasks) != 1 || tasks[0].Tool != "" {
			t.Errorf("all are %+v %v", tasks, err)
		}
	})
}
