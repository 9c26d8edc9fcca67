package shell

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/server"
)

// todo is the service for the task list.
type todo struct {
	mu   sync.Mutex
	list []todoItem
}

// Annotations returns the annotations of all methods.
func (*todo) Annotations() server.Annotations { return closedWorld() }

// A todoItem is a task.
type todoItem struct {
	ID       string `json:"id" jsonschema:"minLength=1,maxLength=100"`
	Content  string `json:"content" jsonschema:"minLength=1,maxLength=1000"`                  // description of the task
	Status   string `json:"status" jsonschema:"enum=pending,enum=in_progress,enum=completed"` // at most one task is in_progress
	Priority string `json:"priority,omitempty" jsonschema:"enum=high,enum=medium,enum=low,default=medium"`
}

type todoReadIn struct {
	_ server.ToolTag `readOnly:"true" tags:"todo"`
}

// A todoList is the list of all tasks.
type todoList struct {
	Todos []todoItem `json:"todos"`
}

// TodoRead returns the task list.
func (t *todo) TodoRead(context.Context, todoReadIn) (todoList, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return todoList{append([]todoItem{}, t.list...)}, nil
}

type todoWriteIn struct {
	_     server.ToolTag `destructive:"true" idempotent:"true" tags:"todo"`
	Todos []todoItem     `json:"todos" jsonschema:"maxItems=200"` // the complete new list
}

// TodoWrite replaces the task list.
func (t *todo) TodoWrite(_ context.Context, in todoWriteIn) (string, error) {
	ids, active := make(map[string]bool), 0
	for _, item := range in.Todos {
		if ids[item.ID] {
			return "", fmt.Errorf("the id %q is there twice", item.ID)
		}
		ids[item.ID] = true
		if item.Status == "in_progress" {
			active++
		}
	}
	if active > 1 {
		return "", fmt.Errorf("%d are in_progress: at most one may be", active)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.Clone(in.Todos)
	return fmt.Sprintf("Entries in the list: %d", len(t.list)), nil
}
