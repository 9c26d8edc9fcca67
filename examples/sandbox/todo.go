package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/server"
)

// Todo are the tools for the list of what is to be done.
type Todo struct {
	mu   sync.Mutex
	list []TodoItem
}

// Annotations are what both have in common.
func (*Todo) Annotations() server.Annotations { return closedWorld() }

// A TodoItem is something to be done.
type TodoItem struct {
	ID       string `json:"id" jsonschema:"minLength=1,maxLength=100"`
	Content  string `json:"content" jsonschema:"minLength=1,maxLength=1000"`                  // what is to be done
	Status   string `json:"status" jsonschema:"enum=pending,enum=in_progress,enum=completed"` // at most one is in_progress
	Priority string `json:"priority,omitempty" jsonschema:"enum=high,enum=medium,enum=low,default=medium"`
}

// TodoReadIn is the annotation of [Todo.TodoRead].
type TodoReadIn struct {
	_ server.ToolTag `readOnly:"true" tags:"todo"`
}

// A TodoList is all that is to be done.
type TodoList struct {
	Todos []TodoItem `json:"todos"`
}

// TodoRead returns the list of what is to be done.
func (t *Todo) TodoRead(context.Context, TodoReadIn) (TodoList, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return TodoList{append([]TodoItem{}, t.list...)}, nil
}

// TodoWriteIn are the arguments of [Todo.TodoWrite].
type TodoWriteIn struct {
	_     server.ToolTag `destructive:"true" idempotent:"true" tags:"todo"`
	Todos []TodoItem     `json:"todos" jsonschema:"maxItems=200"` // the whole list, in place of the one that is there
}

// TodoWrite replaces the list of what is to be done.
func (t *Todo) TodoWrite(_ context.Context, in TodoWriteIn) (string, error) {
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
