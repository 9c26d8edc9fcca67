package quickjs

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// A Script is one script that runs. It must not be used concurrently. After an error, all its methods return this error.
type Script struct {
	module    api.Module
	functions map[string]api.Function // by name; each has a stack. Those that the host calls are not those that call the host
	host      Host
	receive   uint64
	err       error
}

// ErrStopped is the error of a script that an interpreter cannot continue: a trap of WebAssembly, such as an exhausted stack.
var ErrStopped = errors.New("quickjs: the script was stopped")

// A ScriptError is an exception that a script has not caught.
type ScriptError struct {
	Text   string
	Syntax bool // the source cannot be compiled, and nothing has run
}

// Error returns the text of the exception.
func (e *ScriptError) Error() string { return e.Text }

// Run evaluates a source, and passes "script" and its value to the function that the prelude returned. Then it runs what was
// waiting. If ctx ends, the script is stopped, and the error is the cause.
func (s *Script) Run(ctx context.Context, source, file string) error {
	s.free(ctx, s.evaluate(ctx, source, file, compileOnly))
	if thrown, ok := errors.AsType[*ScriptError](s.err); ok {
		thrown.Syntax = true
	}
	value := s.evaluate(ctx, source, file, 0)
	what := s.newString(ctx, "script")
	s.free(ctx, s.call(ctx, s.receive, what, value))
	s.free(ctx, what)
	s.free(ctx, value)
	return s.drain(ctx)
}

// Deliver passes strings to the function that the prelude returned, and runs what was waiting, as [Script.Run] does.
func (s *Script) Deliver(ctx context.Context, values ...string) error {
	arguments := make([]uint64, len(values))
	for i, value := range values {
		arguments[i] = s.newString(ctx, value)
	}
	s.free(ctx, s.call(ctx, s.receive, arguments...))
	for _, argument := range arguments {
		s.free(ctx, argument)
	}
	return s.drain(ctx)
}

// Size returns the memory of the script in bytes.
func (s *Script) Size() int { return int(s.memory().Size()) }

// Close releases the memory of the script.
func (s *Script) Close() { _ = s.module.Close(context.Background()) } // the error is that of a module with files

// drain runs the jobs of promises until none waits.
func (s *Script) drain(ctx context.Context) error {
	for s.invoke(ctx, "qjs_is_job_pending") != 0 && s.err == nil {
		if int32(s.invoke(ctx, "qjs_execute_pending_job")) < 0 {
			s.fail(ctx)
		}
	}
	return s.err
}

func (s *Script) memory() api.Memory { return s.module.Memory() }

func (s *Script) stack() api.MutableGlobal {
	return s.module.ExportedGlobal("__stack_pointer").(api.MutableGlobal)
}

type scriptKey struct{}

// invoke calls an exported function of the interpreter. It returns 0 after an error.
func (s *Script) invoke(ctx context.Context, name string, parameters ...uint64) uint64 {
	if s.err != nil {
		return 0
	}
	function := s.functions[name]
	if function == nil {
		function = s.module.ExportedFunction(name)
		s.functions[name] = function
	}
	results, err := function.Call(context.WithValue(ctx, scriptKey{}, s), parameters...)
	if err != nil {
		s.err = stopped(ctx, err)
		return 0
	}
	if len(results) == 0 {
		return 0
	}
	return results[0]
}

func stopped(ctx context.Context, err error) error {
	if exit, ok := errors.AsType[*sys.ExitError](err); ok && ctx.Err() != nil &&
		(exit.ExitCode() == sys.ExitCodeContextCanceled || exit.ExitCode() == sys.ExitCodeDeadlineExceeded) {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrStopped, err)
}

// compileOnly makes evaluate run nothing.
const compileOnly = 1 << 5

// evaluate returns a pointer to the value of a script.
func (s *Script) evaluate(ctx context.Context, source, file string, flags uint64) uint64 {
	text, name := s.newBytes(ctx, source), s.newBytes(ctx, file)
	defer s.release(ctx, text)
	defer s.release(ctx, name)
	return s.check(ctx, s.invoke(ctx, "qjs_eval", text, uint64(len(source)), name, flags))
}

// call calls a function with values.
func (s *Script) call(ctx context.Context, function uint64, arguments ...uint64) uint64 {
	list := s.allocate(ctx, 4*len(arguments))
	defer s.release(ctx, list)
	for i, argument := range arguments {
		if s.err == nil && !s.memory().WriteUint32Le(uint32(list)+uint32(4*i), uint32(argument)) {
			s.err = ErrStopped
		}
	}
	this := s.invoke(ctx, "qjs_get_undefined")
	return s.check(ctx, s.invoke(ctx, "qjs_call", function, this, uint64(len(arguments)), list))
}

// check returns the value, or notes that it is an exception.
func (s *Script) check(ctx context.Context, value uint64) uint64 {
	if s.err == nil && (value == 0 || s.invoke(ctx, "qjs_is_exception", value) != 0) {
		s.fail(ctx)
	}
	return value
}

// fail notes the exception of the interpreter.
func (s *Script) fail(ctx context.Context) {
	exception := s.invoke(ctx, "qjs_get_exception")
	text, _ := s.text(ctx, exception, maxErrorText)
	if s.err == nil {
		s.err = &ScriptError{Text: text}
	}
}

// maxErrorText is how many bytes of an exception are read.
const maxErrorText = 4 << 10

// text returns the beginning of a value as a string, and the length of the whole string.
func (s *Script) text(ctx context.Context, value uint64, most int) (string, int) {
	length := s.allocate(ctx, 4)
	defer s.release(ctx, length)
	start := s.invoke(ctx, "qjs_get_string_len", value, length)
	if s.err != nil || start == 0 {
		return "", 0
	}
	size, _ := s.memory().ReadUint32Le(uint32(length))
	bytes, _ := s.memory().Read(uint32(start), min(size, uint32(most)))
	text := string(bytes)
	s.invoke(ctx, "qjs_free_cstring", start)
	return text, int(size)
}

func (s *Script) newString(ctx context.Context, text string) uint64 {
	bytes := s.newBytes(ctx, text)
	defer s.release(ctx, bytes)
	return s.check(ctx, s.invoke(ctx, "qjs_new_string", bytes, uint64(len(text))))
}

func (s *Script) hostFunction(ctx context.Context, name string) uint64 {
	bytes := s.newBytes(ctx, name)
	defer s.release(ctx, bytes)
	return s.check(ctx, s.invoke(ctx, "qjs_new_host_function", bytes, uint64(len(name)), 0))
}

// newBytes copies a text, and a zero after it, to the memory of the script.
func (s *Script) newBytes(ctx context.Context, text string) uint64 {
	start := s.allocate(ctx, len(text)+1)
	if s.err == nil && !(s.memory().WriteString(uint32(start), text) && s.memory().WriteByte(uint32(start)+uint32(len(text)), 0)) {
		s.err = ErrStopped
	}
	return start
}

// errMemory is the error of a script whose memory has no room for what the host sends.
var errMemory = errors.New("quickjs: the memory of the script has no room for what the host sends")

func (s *Script) allocate(ctx context.Context, size int) uint64 {
	start := s.invoke(ctx, "wasm_malloc", uint64(max(size, 1)))
	if s.err == nil && start == 0 {
		s.err = errMemory
	}
	return start
}

func (s *Script) release(ctx context.Context, start uint64) {
	if start != 0 {
		s.invoke(ctx, "wasm_free", start)
	}
}

func (s *Script) free(ctx context.Context, value uint64) {
	if value != 0 {
		s.invoke(ctx, "qjs_free_value", value)
	}
}
