// Package quickjs runs JavaScript in an interpreter that is WebAssembly: QuickJS-NG on wazero. A script can use what it gets
// from its host, and nothing else: there are no files, no network, no environment and no clock of the computer.
//
// quickjs.wasm is the file of that name in the npm package quickjs-wasi 3.7.0 (MIT), which has QuickJS-NG 0.15. Only this
// package knows wazero.
package quickjs

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

//go:embed quickjs.wasm
var interpreter []byte

// stackSize is how many bytes of the stack of the interpreter a script may use, of the 1 MiB that it has in quickjs.wasm. It
// leaves room for what runs between two checks.
const stackSize = 512 << 10

// page is the unit in which the memory of WebAssembly grows.
const page = 64 << 10

// An Engine starts scripts. It may be used concurrently.
type Engine struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	image   image
}

// An image is an interpreter that has evaluated a prelude: a script starts with a copy.
type image struct {
	memory           []byte
	stack            uint64
	runtime, context uint64 // pointers
	receive          uint64 // pointer to the function that the prelude returned
}

// Options configure an [Engine].
type Options struct {
	// Memory is the largest memory of a script in bytes. It is rounded up to 64 KiB.
	Memory int
	// CacheDir keeps the compiled interpreter for later processes. "" means that it is compiled by each.
	CacheDir string
	// Interpret runs WebAssembly without compiling it, which is slow and works on each system.
	Interpret bool
	// Prelude is a script whose value is a function of the host's send and random, which returns a function that gets
	// what the host sends. All scripts of the engine start after it.
	Prelude string
}

// New compiles the interpreter and evaluates the prelude.
func New(ctx context.Context, opts *Options) (*Engine, error) {
	if opts.Memory < 2<<20 || opts.Memory > 1<<32 {
		return nil, fmt.Errorf("the memory of a script must have from 2 MiB to 4 GiB, not %d bytes", opts.Memory)
	}
	config := wazero.NewRuntimeConfig()
	if opts.Interpret {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	config = config.WithCloseOnContextDone(true).WithMemoryLimitPages(uint32((opts.Memory + page - 1) / page))
	if opts.CacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(opts.CacheDir)
		if err != nil {
			return nil, err
		}
		config = config.WithCompilationCache(cache)
	}
	e := &Engine{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	if err := e.prepare(ctx, opts.Prelude); err != nil {
		return nil, errors.Join(err, e.Close(context.WithoutCancel(ctx)))
	}
	return e, nil
}

// Close ends all scripts and releases the compiled interpreter.
func (e *Engine) Close(ctx context.Context) error { return e.runtime.Close(ctx) }

func (e *Engine) prepare(ctx context.Context, prelude string) error {
	if err := defineHost(ctx, e.runtime); err != nil {
		return err
	}
	var err error
	if e.module, err = e.runtime.CompileModule(ctx, interpreter); err != nil {
		return err
	}
	first, err := e.instantiate(ctx, preludeHost{})
	if err != nil {
		return err
	}
	defer first.Close()
	first.invoke(ctx, "_initialize")
	if status := first.invoke(ctx, "qjs_init2", intrinsics); first.err == nil && status != 0 {
		return errors.New("quickjs: the interpreter does not start")
	}
	first.invoke(ctx, "qjs_set_max_stack_size", stackSize)
	function := first.evaluate(ctx, prelude, "prelude.js", 0)
	arguments := []uint64{first.hostFunction(ctx, "send"), first.hostFunction(ctx, "random")}
	e.image.receive = first.call(ctx, function, arguments...)
	e.image.runtime = first.invoke(ctx, "qjs_get_runtime_ptr")
	e.image.context = first.invoke(ctx, "qjs_get_context_ptr")
	if first.err != nil {
		return fmt.Errorf("quickjs: the prelude: %w", first.err)
	}
	e.image.stack = first.stack().Get()
	memory := first.memory()
	all, _ := memory.Read(0, memory.Size())
	e.image.memory = append([]byte(nil), all...)
	return nil
}

// The parts of the language that scripts have (the flags of qjs_init2): all except eval's siblings that nothing needs. Eval is
// needed to evaluate the script itself; the prelude removes it. Weak references would show when memory is freed, and the
// timer of performance how long the host takes.
const (
	intrinsicDate = 1 << iota
	intrinsicEval
	intrinsicRegExp
	intrinsicJSON
	intrinsicProxy
	intrinsicMapSet
	intrinsicTypedArrays
	intrinsicPromise
	intrinsicBigInt
	intrinsics = intrinsicDate | intrinsicEval | intrinsicRegExp | intrinsicJSON | intrinsicProxy | intrinsicMapSet |
		intrinsicTypedArrays | intrinsicPromise | intrinsicBigInt | intrinsicBase64
	intrinsicBase64 = 1 << 12 // atob and btoa
)

func (e *Engine) instantiate(ctx context.Context, host Host) (*Script, error) {
	instance, err := e.runtime.InstantiateModule(ctx, e.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, err
	}
	return &Script{module: instance, functions: make(map[string]api.Function), host: host}, nil
}

// Start starts a script, which has not evaluated anything after the prelude. Close it.
func (e *Engine) Start(ctx context.Context, host Host) (*Script, error) {
	s, err := e.instantiate(ctx, host)
	if err != nil {
		return nil, err
	}
	memory := s.memory()
	if missing := len(e.image.memory) - int(memory.Size()); missing > 0 {
		memory.Grow(uint32(missing / page))
	}
	if !memory.Write(0, e.image.memory) {
		s.Close()
		return nil, errors.New("quickjs: the memory of a script is too small for the interpreter")
	}
	s.invoke(ctx, "qjs_set_runtime_and_context", e.image.runtime, e.image.context)
	s.stack().Set(e.image.stack)
	s.receive = e.image.receive
	if s.err != nil {
		s.Close()
		return nil, s.err
	}
	return s, nil
}

// A Host is what a script can use. Its methods are called while the script computes, by the goroutine that calls a method of
// the [Script].
type Host interface {
	// Send gets what the prelude sends: strings, of which the memory is read when the function is called.
	Send(values []Value)
	// Now returns the time in nanoseconds since 1970.
	Now() int64
	// Random returns a number from 0 to below 1.
	Random() float64
}

// preludeHost is the host while the prelude is evaluated.
type preludeHost struct{}

func (preludeHost) Send([]Value)    {}
func (preludeHost) Now() int64      { return 0 }
func (preludeHost) Random() float64 { return 0 }
