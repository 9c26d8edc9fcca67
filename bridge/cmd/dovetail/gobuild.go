package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A goBuild builds the program that go run would run.
type goBuild struct {
	program               string // go
	flags, packages, args []string
	dir                   string // the value of -C, in which the program runs, or ""
	folder                string // of the built programs
	builds                int
}

// valueFlags are the build flags with a value in the next word.
var valueFlags = []string{"C", "asmflags", "buildmode", "compiler", "covermode", "coverpkg", "exec", "gccgoflags", "gcflags", "installsuffix", "ldflags", "mod", "modfile", "o", "overlay", "p", "pgo", "pkgdir", "tags", "toolexec"}

// parseGoRun returns the build for a command that is go run, and nil for others. It also returns nil if go build has no
// equivalent: with -exec, and for a package with a version.
func parseGoRun(command []string, folder string) *goBuild {
	if len(command) < 3 || filepath.Base(command[0]) != "go" || command[1] != "run" {
		return nil
	}
	b := &goBuild{program: command[0], folder: folder}
	rest := command[2:]
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		name, value, hasValue := strings.Cut(strings.TrimLeft(rest[0], "-"), "=")
		count := 1
		if !hasValue && slices.Contains(valueFlags, name) {
			count = min(2, len(rest))
			value = rest[count-1]
		}
		switch name {
		case "exec":
			return nil
		case "C":
			b.dir = value
		}
		b.flags, rest = append(b.flags, rest[:count]...), rest[count:]
	}
	for len(rest) > 0 && (len(b.packages) == 0 || strings.HasSuffix(rest[0], ".go") && strings.HasSuffix(b.packages[0], ".go")) {
		b.packages, rest = append(b.packages, rest[0]), rest[1:]
	}
	if len(b.packages) == 0 || strings.Contains(b.packages[0], "@") {
		return nil
	}
	b.args = rest
	return b
}

// run builds the program, and returns the command that runs it. The output of the build goes to
// stderr.
func (b *goBuild) run(ctx context.Context, stderr io.Writer) ([]string, error) {
	b.builds++
	program := filepath.Join(b.folder, fmt.Sprintf("server%d.exe", b.builds)) // another name, since the old program runs
	build := exec.CommandContext(ctx, b.program, slices.Concat([]string{"build"}, b.flags, []string{"-o", program}, b.packages)...)
	output := &beginning{}
	build.Stdout = io.MultiWriter(stderr, output)
	build.Stderr = build.Stdout
	if err := build.Run(); err != nil {
		return nil, errors.Join(&buildError{string(output.text)}, ctx.Err())
	}
	if b.builds > 2 {
		_ = os.Remove(filepath.Join(b.folder, fmt.Sprintf("server%d.exe", b.builds-2))) // it may run still
	}
	return append([]string{program}, b.args...), nil
}

// A buildError is the failure of a build.
type buildError struct{ output string }

func (e *buildError) Error() string { return "the build failed" }

// maxBuildOutput is how much of the output of a build is kept, in bytes.
const maxBuildOutput = 64 << 10

// A beginning keeps the beginning of what is written.
type beginning struct{ text []byte }

func (b *beginning) Write(text []byte) (int, error) {
	b.text = append(b.text, text[:min(len(text), maxBuildOutput-len(b.text))]...)
	return len(text), nil
}
