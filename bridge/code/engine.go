package code

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"github.com/dovetail-go/dovetail/bridge/code/internal/quickjs"
)

//go:embed prelude.js
var prelude string

// defaultMemory is the default of [EngineOptions].Memory.
const defaultMemory = 64 << 20

// EngineOptions configure an [Engine]. The zero value is ready for use.
type EngineOptions struct {
	// Memory is the largest memory of a script, in bytes. A script that needs more ends with an error. From 2 MiB to 4 GiB, default 64 MiB.
	Memory int
	// CacheDir is a folder that keeps the compiled interpreter, for later processes. It is created if it does not exist. A
	// program that can write to it can run code in this process. Default: none, and each process compiles the interpreter,
	// which takes about half a second.
	CacheDir string
}

// An Engine runs scripts: an interpreter of JavaScript, compiled once. Several providers may share it, and it may be used
// concurrently.
type Engine struct{ machine *quickjs.Engine }

// NewEngine compiles the interpreter. opts may be nil. The caller must call [Engine.Close].
func NewEngine(opts *EngineOptions) (*Engine, error) {
	o := *cmp.Or(opts, new(EngineOptions))
	machine, err := quickjs.New(context.Background(), &quickjs.Options{
		Memory: cmp.Or(o.Memory, defaultMemory), CacheDir: o.CacheDir, Prelude: prelude,
	})
	if err != nil {
		return nil, fmt.Errorf("code: %w", err)
	}
	return &Engine{machine}, nil
}

// Close stops the scripts that run, and releases the interpreter.
func (e *Engine) Close() error { return e.machine.Close(context.Background()) }
