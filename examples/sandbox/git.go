package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
)

// Git are the tools for the repository in the workspace. They run git so that nothing that
// stands in the repository is run by it: no hooks, no pagers, and no programs that show
// differences. Filters cannot be left out without files being committed that should not be,
// so a repository that names some is refused.
type Git struct {
	work     *workspace.Workspace
	commands *Commands
}

// Annotations are what all of them have in common.
func (*Git) Annotations() server.Annotations {
	a := closedWorld()
	a.Timeout = time.Minute
	return a
}

// run runs a command of git. What callers name comes after "--", so that it is no option.
func (g *Git) run(ctx context.Context, most int, args ...string) (*process.Output, error) {
	dir := g.work.Dir()
	command := &process.Command{Path: "git", Args: append([]string{
		"--git-dir=" + filepath.Join(dir, ".git"), "--work-tree=" + dir, // whatever core.worktree says
		"--no-pager", "--literal-pathspecs", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
		"-c", "color.ui=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "log.showSignature=false",
		"-c", "safe.bareRepository=explicit", // files of the workspace may look like one
	}, args...)}
	// No repository above the workspace, no questions, and no fetching of what is missing.
	command.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=false", "GIT_OPTIONAL_LOCKS=0",
		"GIT_ALLOW_PROTOCOL=none"}
	return g.commands.guard.Output(ctx, g.commands.in(command), most)
}

// git returns what a command of git says, or the end of it.
func (g *Git) git(ctx context.Context, args ...string) (string, error) {
	output, err := g.run(ctx, workspace.MaxText, args...)
	return output.Text(), err
}

// errNoRepository is of a workspace that is none.
var errNoRepository = errors.New("the workspace is not a git repository: git_commit makes it one")

// checkPlace refuses a repository that is not, or not wholly, in the workspace: .git is a
// directory and no file or link that leads elsewhere, and neither does anything in it.
func (g *Git) checkPlace() error {
	elsewhere := errors.New("the repository is not a directory .git of the workspace, or a part of it is elsewhere: use git itself, with run_command")
	dir := filepath.Join(g.work.Dir(), ".git")
	switch info, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return errNoRepository
	case err != nil:
		return err
	case !info.IsDir():
		return elsewhere
	}
	for _, name := range []string{"commondir", "objects/info/alternates"} {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); !errors.Is(err, fs.ErrNotExist) {
			return elsewhere
		}
	}
	return filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSymlink != 0 {
			err = elsewhere
		}
		return err
	})
}

// check refuses what is no repository, and one by whose configuration git would run programs
// that no option keeps it from.
func (g *Git) check(ctx context.Context) error {
	if err := g.checkPlace(); err != nil {
		return err
	}
	keys, err := g.git(ctx, "config", "--show-scope", "--name-only", "--get-regexp", `^(filter|hook)\.`)
	if failed, ok := errors.AsType[*process.FailedError](err); ok && failed.Exit.Code == 1 {
		return nil // there are none
	}
	for line := range strings.Lines(keys) {
		if scope, key, _ := strings.Cut(strings.TrimSpace(line), "\t"); scope == "local" || scope == "worktree" {
			return fmt.Errorf("the repository's configuration names programs that git would run (%.80s): use git itself, with run_command", key)
		}
	}
	return err
}

// checkLinks refuses a repository that has others in it: to see what has changed, git would
// run in them what their configurations name.
func (g *Git) checkLinks(ctx context.Context) error {
	const most = 16 << 20 // bytes, seven for a file
	modes, err := g.run(ctx, most, "ls-files", "--format=%(objectmode)")
	if err == nil && strings.Contains(modes.String(), "160000") {
		err = errors.New("there are repositories in the repository: use git itself, with run_command")
	}
	return err
}

// show runs a command that shows something of the repository, of these paths in the
// workspace. Of paths elsewhere git would compare files that are none of its.
func (g *Git) show(ctx context.Context, paths []string, args ...string) (string, error) {
	names, err := g.work.Names(paths...)
	if err == nil {
		err = g.check(ctx)
	}
	if err != nil {
		return "", err
	}
	return g.git(ctx, slices.Concat(args, []string{"--"}, names)...)
}

// GitStatusIn is the annotation of [Git.GitStatus].
type GitStatusIn struct {
	_ server.ToolTag `readOnly:"true" tags:"git"`
}

// GitStatus says on which branch the workspace is, and what has changed since the last
// commit.
func (g *Git) GitStatus(ctx context.Context, _ GitStatusIn) (string, error) {
	return g.show(ctx, nil, "status", "--short", "--branch", "--untracked-files=all", "--ignore-submodules=all")
}

// GitDiffIn are the arguments of [Git.GitDiff].
type GitDiffIn struct {
	_      server.ToolTag `readOnly:"true" tags:"git"`
	Staged bool           `json:"staged,omitempty"`                          // what will be committed, not what has changed beside it
	Paths  []string       `json:"paths,omitempty" jsonschema:"maxItems=100"` // only these files and directories
}

// GitDiff shows changes that have not been committed.
func (g *Git) GitDiff(ctx context.Context, in GitDiffIn) (string, error) {
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"}
	if in.Staged {
		args = append(args, "--cached")
	}
	changes, err := g.show(ctx, in.Paths, args...)
	if err == nil && changes == "" {
		changes = "There are no changes."
	}
	return changes, err
}

// GitLogIn are the arguments of [Git.GitLog].
type GitLogIn struct {
	_     server.ToolTag `readOnly:"true" tags:"git"`
	Limit int            `json:"limit,omitempty" jsonschema:"minimum=1,maximum=200,default=20"` // how many commits to list
	Paths []string       `json:"paths,omitempty" jsonschema:"maxItems=100"`                     // only those that changed these
}

// GitLog lists commits, the newest first.
func (g *Git) GitLog(ctx context.Context, in GitLogIn) (string, error) {
	return g.show(ctx, in.Paths, "log", "--no-ext-diff", "--no-textconv", fmt.Sprint("--max-count=", in.Limit), "--format=%h %ad %an: %s", "--date=iso")
}

// GitCommitIn are the arguments of [Git.GitCommit].
type GitCommitIn struct {
	_       server.ToolTag `destructive:"false" idempotent:"false" tags:"git"`
	Message string         `json:"message" jsonschema:"minLength=1,maxLength=10000"` // what has been done, and why
	Paths   []string       `json:"paths,omitempty" jsonschema:"maxItems=100"`        // only these files and directories; by default everything
}

// GitCommit commits what has changed, new files too. A workspace that is no repository yet
// becomes one.
func (g *Git) GitCommit(ctx context.Context, in GitCommitIn) (string, error) {
	if len(in.Paths) == 0 {
		in.Paths = []string{"."}
	}
	names, err := g.work.Names(in.Paths...)
	if err != nil {
		return "", err
	}
	paths := append([]string{"--"}, names...)
	if err = g.check(ctx); errors.Is(err, errNoRepository) {
		_, err = g.git(ctx, "init", "--quiet", "--template=")
	}
	if err == nil {
		err = g.checkLinks(ctx)
	}
	if err == nil {
		_, err = g.git(ctx, slices.Concat([]string{"add", "--all"}, paths)...)
	}
	if err != nil {
		return "", err
	}
	commit := slices.Concat([]string{"commit", "--quiet", "--message=" + in.Message}, paths)
	if _, err := g.git(ctx, "config", "user.email"); err != nil {
		commit = slices.Concat([]string{"-c", "user.name=sandbox", "-c", "user.email=sandbox@localhost"}, commit)
	}
	if said, err := g.git(ctx, commit...); err != nil {
		return "", errors.Join(err, errors.New(said)) // that there is nothing to commit is no error message of git's
	}
	return g.git(ctx, "show", "--no-ext-diff", "--no-textconv", "--stat", "--format=%h %s")
}
