package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Reasons for an [Error] beside those of package io/fs.
var (
	// ErrOutside: the path leads out of the workspace.
	ErrOutside = errors.New("is outside of the workspace")
	// ErrNotRegular: it is no file, but a directory, pipe, socket or device.
	ErrNotRegular = errors.New("is not a regular file")
	// ErrLink: it is a symbolic link, or lies behind one, and what is changed has to be named itself.
	ErrLink = errors.New("is a symbolic link: name what it points to")
	// ErrProtected: it is not to be changed by these means.
	ErrProtected = errors.New("is protected: it cannot be changed by file tools")
	// ErrTooLarge: the file is longer than may be read as a whole.
	ErrTooLarge = errors.New("is too large")
	// ErrBinary: the file is no text.
	ErrBinary = errors.New("is a binary file")
	// ErrNotDirectory: it is no directory.
	ErrNotDirectory = errors.New("is not a directory")
	// ErrPattern: it is no pattern of doublestar.Match, or has more than four braces.
	ErrPattern = errors.New("is not a pattern such as *.go, src/**/*.ts or *.{js,ts}")
	// ErrRoot: the workspace itself cannot be removed or replaced.
	ErrRoot = errors.New("is the workspace itself")
)

// An Error says what is wrong with a path.
type Error struct {
	// Path is as it was given.
	Path string
	// Err is one of this package or package io/fs, or the operating system's.
	Err error
}

// Error is the path and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%.256q %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// wrap makes an Error, without what the operating system's says of operations and paths.
func (w *Workspace) wrap(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, is := errors.AsType[*Error](err); is {
		return err
	}
	err = reason(err)
	if err == w.escape {
		err = ErrOutside
	}
	return &Error{path, err}
}

// reason is that of the operating system's error.
func reason(err error) error {
	if e, is := errors.AsType[*fs.PathError](err); is {
		return e.Err
	}
	if e, is := errors.AsType[*os.LinkError](err); is {
		return e.Err
	}
	return err
}
