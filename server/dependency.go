package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
)

// A Dependency is a value that lives as long as its server serves: a database, a
// client, a cache. [Provide] makes one.
type Dependency struct {
	of    reflect.Type
	start func(ctx context.Context) (value any, stop func(context.Context) error, err error)
}

// Provide describes a dependency of type T. start is called once, before the server
// answers its first call; its context ends when all has been started. stop, which
// may be nil, is called once, when the server is shut down or cannot start, unless
// start itself has failed. Functions get the value by [Value], methods of a service as
// a parameter, and may use it concurrently. There is one dependency of a type.
//
// Starting all dependencies and what is mounted takes at most a minute. An error or panic
// of start is one of [Server.Start]; clients get a reference to the log only.
func Provide[T any](start func(ctx context.Context) (value T, stop func(context.Context) error, err error)) Dependency {
	return Dependency{
		of: reflect.TypeFor[T](),
		start: func(ctx context.Context) (any, func(context.Context) error, error) {
			return start(ctx)
		},
	}
}

// Value returns the server's dependency of type T. It panics if the server has none:
// that is a mistake in the program, which fails the call that meets it.
func Value[T any](r *Request) T {
	value, ok := r.dependency(reflect.TypeFor[T]())
	if !ok {
		panic(fmt.Sprintf("server.Value: Options.Dependencies has none of type %v", reflect.TypeFor[T]()))
	}
	t, _ := value.(T) // a nil value of an interface type is no T
	return t
}

func (r *Request) dependency(of reflect.Type) (value any, ok bool) {
	if r.server == nil {
		return nil, false
	}
	value, ok = r.server.life.values[of]
	return value, ok
}

// checkDependencies refuses two dependencies of one type.
func checkDependencies(dependencies []Dependency) error {
	for i, d := range dependencies {
		if d.start == nil {
			return errors.New("a Dependency is made by Provide")
		}
		if slices.ContainsFunc(dependencies[:i], func(other Dependency) bool { return other.of == d.of }) {
			return fmt.Errorf("there are two dependencies of type %v", d.of)
		}
	}
	return nil
}

// begin starts the dependency. What it returns stops it again.
func (d Dependency) begin(ctx context.Context, l *lifecycle) (func(context.Context) error, error) {
	var stop func(context.Context) error
	err := d.safely(l, "starting", func() error {
		value, started, err := d.start(ctx)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx) // which says more
		}
		l.values[d.of], stop = value, started
		return err
	})
	return func(ctx context.Context) error {
		if stop == nil {
			return nil
		}
		return d.safely(l, "stopping", func() error { return stop(ctx) })
	}, err
}

// safely survives a panic of the dependency's functions.
func (d Dependency) safely(l *lifecycle, doing string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.server.options.Logger.Error("panic of a dependency", "doing", doing, "type", d.of.String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("it panicked")
		}
		if err != nil {
			err = fmt.Errorf("%s %v: %w", doing, d.of, err)
		}
	}()
	return do()
}
