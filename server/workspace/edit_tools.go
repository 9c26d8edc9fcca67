package workspace

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/server"
)

// editTools are the tools that change text files.
type editTools struct{ work *Workspace }

// Annotations are what both have in common.
func (editTools) Annotations() server.Annotations { return closedWorld() }

// editFileIn are the arguments of [editTools.EditFile].
type editFileIn struct {
	_    server.ToolTag `destructive:"true" idempotent:"false" timeout:"30s" tags:"files"`
	Path string         `json:"path" jsonschema:"minLength=1"` // the file
	Replacement
}

// EditFile replaces a text in a file.
func (e *editTools) EditFile(_ context.Context, in editFileIn) (string, error) {
	return e.edit(in.Path, []Replacement{in.Replacement})
}

// multiEditIn are the arguments of [editTools.MultiEdit].
type multiEditIn struct {
	_     server.ToolTag `destructive:"true" idempotent:"false" timeout:"30s" tags:"files"`
	Path  string         `json:"path" jsonschema:"minLength=1"`               // the file
	Edits []Replacement  `json:"edits" jsonschema:"minItems=1,maxItems=1000"` // what to replace, one after the other
}

// MultiEdit makes several edits of one file: all of them, or none.
func (e *editTools) MultiEdit(_ context.Context, in multiEditIn) (string, error) {
	return e.edit(in.Path, in.Edits)
}

func (e *editTools) edit(path string, edits []Replacement) (string, error) {
	replaced, err := e.work.Replace(path, edits...)
	return fmt.Sprintf("Edited %s: %d replaced", path, replaced), err
}
