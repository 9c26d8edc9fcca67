package shell

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
)

// git are the tools for the repository in the workspace. git runs no programs that the
// repository names: no hooks, pagers or diff programs. Filters cannot be disabled without
// committing wrong content, so a repository with filters is refused.
type git struct{ shell *Shell }

// Annotations returns the annotations of all methods.
func (*git) Annotations() server.Annotations {
	a := closedWorld()
	a.Timeout = time.Minute
	return a
}

// run runs a git command. Paths of callers follow "--", so that they are not options.
func (g *git) run(ctx context.Context, limit int, args ...string) (*process.Output, error) {
	dir := g.shell.workspace.Dir()
	command := &process.Command{Path: "git", Args: append([]string{
		"--git-dir=" + filepath.Join(dir, ".git"), "--work-tree=" + dir, // overrides core.worktree
		"--no-pager", "--literal-pathspecs", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
		"-c", "color.ui=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "log.showSignature=false",
		"-c", "safe.bareRepository=explicit", // a directory of the workspace may look like a bare repository
	}, args...)}
	// No repository above the workspace, no questions, no fetching of missing objects.
	command.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=false", "GIT_OPTIONAL_LOCKS=0",
		"GIT_ALLOW_PROTOCOL=none"}
	return g.shell.guard.Output(ctx, g.shell.command(command), limit)
}

// output returns the output of a git command, or its end.
func (g *git) output(ctx context.Context, args ...string) (string, error) {
	output, err := g.run(ctx, 256<<10, args...)
	return output.Text(), err
}

// errNoRepository reports that the workspace is not a repository.
var errNoRepository = errors.New("the workspace is not a git repository: git_commit makes it one")

// checkPlace refuses a repository with parts outside of the workspace. .git must be a
// directory, and neither it nor its content may be a link that leaves the workspace.
func (g *git) checkPlace() error {
	elsewhere := errors.New("the repository is not a directory .git of the workspace, or a part of it is elsewhere: use git itself, with run_command")
	dir := filepath.Join(g.shell.workspace.Dir(), ".git")
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

// check refuses a workspace without a repository, and a repository whose configuration names
// programs that no option disables.
func (g *git) check(ctx context.Context) error {
	if err := g.checkPlace(); err != nil {
		return err
	}
	keys, err := g.output(ctx, "config", "--show-scope", "--name-only", "--get-regexp", `^(filter|hook)\.`)
	if failed, ok := errors.AsType[*process.FailedError](err); ok && failed.Exit.Code == 1 {
		return nil // no filters
	}
	for line := range strings.Lines(keys) {
		if scope, key, _ := strings.Cut(strings.TrimSpace(line), "\t"); scope == "local" || scope == "worktree" {
			return fmt.Errorf("the repository's configuration names programs that git would run (%.80s): use git itself, with run_command", key)
		}
	}
	return err
}

// checkLinks refuses a repository with nested repositories, because git status would run the
// programs of their configurations.
func (g *git) checkLinks(ctx context.Context) error {
	const limit = 16 << 20 // bytes
	modes, err := g.run(ctx, limit, "ls-files", "--format=%(objectmode)")
	if err == nil && strings.Contains(modes.String(), "160000") {
		err = errors.New("there are repositories in the repository: use git itself, with run_command")
	}
	return err
}

// show runs a git command that reads the repository, for paths inside of the workspace.
func (g *git) show(ctx context.Context, paths []string, args ...string) (string, error) {
	ctx, end, err := g.shell.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	names, err := g.shell.workspace.Names(paths...)
	if err == nil {
		err = g.check(ctx)
	}
	if err != nil {
		return "", err
	}
	return g.output(ctx, slices.Concat(args, []string{"--"}, names)...)
}

type gitStatusIn struct {
	_ server.ToolTag `readOnly:"true" tags:"git"`
}

// GitStatus returns the branch and the changes since the last commit.
func (g *git) GitStatus(ctx context.Context, _ gitStatusIn) (string, error) {
	return g.show(ctx, nil, "status", "--short", "--branch", "--untracked-files=all", "--ignore-submodules=all")
}

type gitDiffIn struct {
	_      server.ToolTag `readOnly:"true" tags:"git"`
	Staged bool           `json:"staged,omitempty"`                          // only staged changes
	Paths  []string       `json:"paths,omitempty" jsonschema:"maxItems=100"` // only these files and directories
}

// GitDiff returns the uncommitted changes.
func (g *git) GitDiff(ctx context.Context, in gitDiffIn) (string, error) {
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

type gitLogIn struct {
	_     server.ToolTag `readOnly:"true" tags:"git"`
	Limit int            `json:"limit,omitempty" jsonschema:"minimum=1,maximum=200,default=20"` // maximum number of commits
	Paths []string       `json:"paths,omitempty" jsonschema:"maxItems=100"`                     // only commits that changed these files
}

// GitLog lists commits, newest first.
func (g *git) GitLog(ctx context.Context, in gitLogIn) (string, error) {
	return g.show(ctx, in.Paths, "log", "--no-ext-diff", "--no-textconv", fmt.Sprint("--max-count=", in.Limit), "--format=%h %ad %an: %s", "--date=iso")
}

type gitCommitIn struct {
	_       server.ToolTag `destructive:"false" idempotent:"false" tags:"git"`
	Message string         `json:"message" jsonschema:"minLength=1,maxLength=10000"` // commit message
	Paths   []string       `json:"paths,omitempty" jsonschema:"maxItems=100"`        // only these files and directories; default: all
}

// GitCommit commits all changes, including new files. It creates a repository if there is
// none.
func (g *git) GitCommit(ctx context.Context, in gitCommitIn) (string, error) {
	ctx, end, err := g.shell.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	if len(in.Paths) == 0 {
		in.Paths = []string{"."}
	}
	names, err := g.shell.workspace.Names(in.Paths...)
	if err != nil {
		return "", err
	}
	paths := append([]string{"--"}, names...)
	if err = g.check(ctx); errors.Is(err, errNoRepository) {
		_, err = g.output(ctx, "init", "--quiet", "--template=")
	}
	if err == nil {
		err = g.checkLinks(ctx)
	}
	if err == nil {
		_, err = g.output(ctx, slices.Concat([]string{"add", "--all"}, paths)...)
	}
	if err != nil {
		return "", err
	}
	commit := slices.Concat([]string{"commit", "--quiet", "--message=" + in.Message}, paths)
	if _, err := g.output(ctx, "config", "user.email"); err != nil {
		commit = slices.Concat([]string{"-c", "user.name=sandbox", "-c", "user.email=sandbox@localhost"}, commit)
	}
	if said, err := g.output(ctx, commit...); err != nil {
		return "", errors.Join(err, errors.New(said)) // git prints that there is nothing to commit to its standard output
	}
	return g.output(ctx, "show", "--no-ext-diff", "--no-textconv", "--stat", "--format=%h %s")
}
