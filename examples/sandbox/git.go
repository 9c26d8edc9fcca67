package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
)

// Git are the tools for the repository in the workspace. They run git so that nothing that
// stands in the repository is run by it: no hooks, no pagers, and no programs that show
// differences.
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

// git runs a command of git. What callers name comes after "--", so that it is no option.
func (g *Git) git(ctx context.Context, args ...string) (string, error) {
	command := &process.Command{Path: "git", Args: append([]string{
		"--no-pager", "--literal-pathspecs", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
		"-c", "color.ui=false", "-c", "gc.auto=0", "-c", "log.showSignature=false",
	}, args...)}
	// No repository above the workspace, and no questions.
	command.Env = []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(g.work.Dir()), "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=false", "GIT_OPTIONAL_LOCKS=0"}
	text, err := g.commands.guard.Output(ctx, g.commands.in(command), workspace.MaxText)
	return strings.ToValidUTF8(text, "\uFFFD"), err
}

// paths are those in the workspace that callers name, below a command's own arguments. Of
// paths elsewhere git would compare files that are none of its.
func (g *Git) paths(args, paths []string) ([]string, error) {
	args = append(args, "--")
	for _, path := range paths {
		name, err := g.work.Name(path)
		if err != nil {
			return nil, err
		}
		args = append(args, name)
	}
	return args, nil
}

// show runs a command that shows something of the repository.
func (g *Git) show(ctx context.Context, paths []string, args ...string) (string, error) {
	args, err := g.paths(args, paths)
	if err != nil {
		return "", err
	}
	if _, err := g.git(ctx, "rev-parse", "--git-dir"); err != nil {
		return "", err
	}
	return g.git(ctx, args...)
}

// GitStatusIn is the annotation of [Git.GitStatus].
type GitStatusIn struct {
	_ server.ToolTag `readOnly:"true" tags:"git"`
}

// GitStatus says on which branch the workspace is, and what has changed since the last
// commit.
func (g *Git) GitStatus(ctx context.Context, _ GitStatusIn) (string, error) {
	return g.git(ctx, "status", "--short", "--branch", "--untracked-files=all", "--ignore-submodules=all")
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
	add, err := g.paths([]string{"add", "--all"}, in.Paths)
	if err != nil {
		return "", err
	}
	if _, err := g.git(ctx, "rev-parse", "--git-dir"); err != nil {
		if _, err := g.git(ctx, "init", "--quiet", "--template="); err != nil {
			return "", err
		}
	}
	if _, err := g.git(ctx, add...); err != nil {
		return "", err
	}
	commit := append([]string{"commit", "--quiet", "--message=" + in.Message}, add[2:]...)
	if _, err := g.git(ctx, "config", "user.email"); err != nil {
		commit = append([]string{"-c", "user.name=sandbox", "-c", "user.email=sandbox@localhost"}, commit...)
	}
	if said, err := g.git(ctx, commit...); err != nil {
		return "", errors.Join(err, errors.New(said)) // that there is nothing to commit is no error message of git's
	}
	return g.git(ctx, "show", "--no-ext-diff", "--no-textconv", "--stat", "--format=%h %s")
}
