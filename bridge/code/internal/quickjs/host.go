package quickjs

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The functions that the interpreter imports. It calls most of them only if something is switched on that this package does not
// use, or to write to a terminal. They do nothing then.

// Errors of WASI.
const (
	errnoSuccess = 0
	errnoBadF    = 8
	errnoNoSys   = 52
)

func defineHost(ctx context.Context, runtime wazero.Runtime) error {
	_, err := runtime.NewHostModuleBuilder("env").
		NewFunctionBuilder().WithFunc(hostCall).Export("host_call").
		NewFunctionBuilder().WithFunc(func() uint32 { return 0 }).Export("host_interrupt").
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export("host_promise_rejection").
		NewFunctionBuilder().WithFunc(func(_, _ uint32) uint32 { return 0 }).Export("host_module_normalize").
		NewFunctionBuilder().WithFunc(func(_, _ uint32) uint32 { return 0 }).Export("host_module_load").
		NewFunctionBuilder().WithFunc(func(_, _ uint32) uint32 { return 0 }).Export("host_get_timezone_offset"). // UTC
		Instantiate(ctx)
	if err != nil {
		return err
	}
	_, err = runtime.NewHostModuleBuilder("wasi_snapshot_preview1").
		NewFunctionBuilder().WithFunc(clockTime).Export("clock_time_get").
		NewFunctionBuilder().WithFunc(randomBytes).Export("random_get").
		NewFunctionBuilder().WithFunc(func(_ uint32) uint32 { return errnoNoSys }).Export("fd_close").
		NewFunctionBuilder().WithFunc(func(_, _ uint32) uint32 { return errnoBadF }).Export("fd_fdstat_get").
		NewFunctionBuilder().WithFunc(func(_ uint32, _ uint64, _, _ uint32) uint32 { return errnoNoSys }).Export("fd_seek").
		NewFunctionBuilder().WithFunc(func(_, _, _, _ uint32) uint32 { return errnoBadF }).Export("fd_write").
		Instantiate(ctx)
	return err
}

func scriptOf(ctx context.Context) *Script { return ctx.Value(scriptKey{}).(*Script) }

// A Value is an argument of a call of the host.
type Value struct {
	script *Script
	ctx    context.Context
	at     uint64
}

// Text returns the value as text, at most the given number of its first bytes, and how many bytes the whole text has.
func (v Value) Text(most int) (text string, size int) { return v.script.text(v.ctx, v.at, most) }

// hostCall is called when a script calls a function of the host. It returns a pointer to the result.
func hostCall(ctx context.Context, module api.Module, name, nameLen, _, count, list uint32) uint32 {
	s := scriptOf(ctx)
	function, _ := module.Memory().Read(name, nameLen)
	if string(function) == "random" {
		return uint32(s.invoke(ctx, "qjs_new_number", math.Float64bits(s.host.Random())))
	}
	values := make([]Value, 0, 8)
	for i := range count {
		at, ok := module.Memory().ReadUint32Le(list + 4*i)
		if !ok || i == maxValues {
			break
		}
		values = append(values, Value{s, ctx, uint64(at)})
	}
	s.host.Send(values)
	return uint32(s.invoke(ctx, "qjs_get_undefined"))
}

// maxValues is how many values the prelude sends at most.
const maxValues = 16

func clockTime(ctx context.Context, module api.Module, _ uint32, _ uint64, result uint32) uint32 {
	module.Memory().WriteUint64Le(result, uint64(scriptOf(ctx).host.Now()))
	return errnoSuccess
}

func randomBytes(ctx context.Context, module api.Module, start, length uint32) uint32 {
	host := scriptOf(ctx).host
	var word [8]byte
	for i := range length {
		if i%4 == 0 {
			binary.LittleEndian.PutUint32(word[:], uint32(host.Random()*(1<<32)))
		}
		module.Memory().WriteByte(start+i, word[i%4])
	}
	return errnoSuccess
}
