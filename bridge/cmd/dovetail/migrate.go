package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/migrate"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

var migrateCommand = &command{
	name: "migrate", args: "[FLAGS] [FOLDER]", short: "rewrite a program that uses go-sdk or mcp-go",
	long: `FOLDER is the folder of a Go module (default: the current one). The command prints what would change in its
packages and tests as a diff, and with -w writes it. It rewrites registrations, options, results, the
signatures of handlers, serving over stdio and HTTP, clients, imports and go.mod. What it does not know
stays as it is under a comment ` + strings.TrimSuffix(migrate.Marker, ": ") + `. Then the result may not compile: the
report lists the compile errors, tests included. Files outside of the module are never written.

The program must compile before. The go command may download what it requires. With -w, the files
that change must be committed to git, unless -force.

https://github.com/dovetail-go/dovetail/blob/main/docs/migrate.md describes the rest of the work.`,
	run: runMigrate,
}

func runMigrate(ctx context.Context, env *environment, c *command, line []string) error {
	var opts migrate.Options
	var write, force bool
	flags := newFlags(c, env.stderr)
	flags.BoolVar(&write, "w", false, "write the files")
	flags.BoolVar(&force, "force", false, "write although files are not committed")
	flags.StringVar(&opts.Library, "library", libraryVersion(), "the `version` of the library to require, or a folder with it")
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if len(args) > 1 || child != nil || force && !write {
		return flags.usage()
	}
	folder := "."
	if len(args) == 1 {
		folder = args[0]
	}
	result, err := migrate.Rewrite(ctx, folder, opts)
	if err != nil {
		return err
	}
	if write && !force {
		if err := checkCommitted(ctx, result); err != nil {
			return err
		}
	}
	if write {
		err = writeFiles(result)
	} else {
		err = printDiff(ctx, env.raw, result)
	}
	if err != nil {
		return err
	}
	printReport(env.stderr, result, write)
	return nil
}

// libraryVersion returns the version of the library in this command.
func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/dovetail-go/dovetail" && strings.HasPrefix(module.Version, "v") {
				return module.Version
			}
		}
	}
	return "v0.1.0"
}

// checkCommitted returns an error unless git can bring back each file that would be written.
func checkCommitted(ctx context.Context, result *migrate.Result) error {
	var names []string
	for _, f := range result.Files {
		if f.Before != nil {
			names = append(names, f.Name)
		}
	}
	committed, err := git(ctx, result.Root, append([]string{"ls-files", "-z", "--"}, names...)...)
	if err != nil {
		return fmt.Errorf("finding uncommitted changes: %w; -force writes without looking", err)
	}
	changed, err := git(ctx, result.Root, append([]string{"diff", "--name-only", "--relative", "-z", "HEAD", "--"}, names...)...)
	if err != nil {
		return fmt.Errorf("finding uncommitted changes: %w; -force writes without looking", err)
	}
	for _, name := range names {
		if !strings.Contains("\x00"+committed, "\x00"+name+"\x00") || strings.Contains("\x00"+changed, "\x00"+name+"\x00") {
			return fmt.Errorf("%s would be written and is not committed; commit it, or use -force", name)
		}
	}
	return nil
}

// git returns what a command of git prints. Its exit status is an *exec.ExitError.
func git(ctx context.Context, folder string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	var failure strings.Builder
	c.Dir, c.Stderr = folder, &failure
	out, err := c.Output()
	if err != nil && failure.Len() > 0 {
		err = fmt.Errorf("git %s: %s: %w", args[0], strings.TrimSpace(failure.String()), err)
	}
	return string(out), err
}

// writeFiles writes the files. No link leads out of the module.
func writeFiles(result *migrate.Result) (err error) {
	root, err := os.OpenRoot(result.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, f := range result.Files {
		name := filepath.FromSlash(f.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		folder, err := root.OpenRoot(filepath.Dir(name))
		if err != nil {
			return err
		}
		if err := errors.Join(sharedfile.WriteIn(folder, filepath.Base(name), f.After, 0), folder.Close()); err != nil {
			return err
		}
	}
	return nil
}

// printDiff prints the changes as a diff, which patch -p1 and git apply take.
func printDiff(ctx context.Context, out io.Writer, result *migrate.Result) error {
	folder, err := os.MkdirTemp("", "dovetail-migrate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, f := range result.Files {
		for side, text := range map[string][]byte{"a": f.Before, "b": f.After} {
			path := filepath.Join(folder, side, filepath.FromSlash(f.Name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			if text == nil {
				continue
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				return err
			}
		}
	}
	diff, err := git(ctx, folder, "-c", "core.quotepath=off", "diff", "--no-index", "--no-prefix", "--no-color", "--no-ext-diff", "a", "b")
	if status, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || status.ExitCode() != 1) {
		return err
	}
	_, err = io.WriteString(out, diff)
	return err
}

func printReport(out io.Writer, result *migrate.Result, written bool) {
	for _, note := range result.Notes {
		fmt.Fprintf(out, "%s:%d: %s\n", note.Name, note.Line, note.Text)
	}
	for _, name := range result.Skipped {
		fmt.Fprintf(out, "%s: not read: it is generated, a link, or excluded by build constraints\n", name)
	}
	for _, problem := range result.Errors {
		fmt.Fprintln(out, problem)
	}
	verb := "would change"
	if written {
		verb = "changed"
	}
	fmt.Fprintf(out, "%d files %s. Of %d lines that use the other library, %d are rewritten. %d places are left to do by hand. %d compile errors remain.\n",
		len(result.Files), verb, result.Lines, result.Lines-result.Left, len(result.Notes), len(result.Errors))
}
