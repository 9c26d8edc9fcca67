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
	"github.com/dovetail-go/dovetail/server/workspace"
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
	return g.runOver(ctx, "none", limit, args...)
}

// runOver is run with a protocol for other repositories.
func (g *git) runOver(ctx context.Context, protocol string, limit int, args ...string) (*process.Output, error) {
	dir := g.shell.workspace.Dir()
	command := &process.Command{Path: "git", Args: append([]string{
		"--git-dir=" + filepath.Join(dir, ".git"), "--work-tree=" + dir, // overrides core.worktree
		"--no-pager", "--literal-pathspecs", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
		"-c", "color.ui=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "log.showSignature=false",
		"-c", "safe.bareRepository=explicit", // a directory of the workspace may look like a bare repository
	}, args...)}
	// No repository above the workspace, no questions, no fetching of missing objects.
	command.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=false", "GIT_OPTIONAL_LOCKS=0",
		"GIT_ALLOW_PROTOCOL=" + protocol}
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
	keys, err := g.settings(ctx, "--get-regexp", `^(filter|hook)\.`)
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

// settings returns the scopes and names of settings. It refuses a configuration whose names are longer than what is read.
func (g *git) settings(ctx context.Context, args ...string) (string, error) {
	const limit = 256 << 10 // bytes
	keys, err := g.run(ctx, limit, append([]string{"config", "--show-scope", "--name-only"}, args...)...)
	if err == nil && keys.Written() > limit {
		err = errors.New("the repository's configuration is too large: use git itself, with run_command")
	}
	return keys.String(), err
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

// revision returns the id of a commit or another object by its name.
func (g *git) revision(ctx context.Context, name string) (string, error) {
	id, err := g.output(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
	if _, unknown := errors.AsType[*process.FailedError](err); unknown || strings.Contains(strings.TrimSpace(id), "\n") {
		return "", fmt.Errorf("the repository has no commit or branch %.80q", name)
	}
	return strings.TrimSpace(id), err
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

type gitShowIn struct {
	_      server.ToolTag `readOnly:"true" tags:"git"`
	Commit string         `json:"commit,omitempty" jsonschema:"minLength=1,maxLength=1000,default=HEAD"` // a commit or branch, or COMMIT:PATH for a file at that commit
	Paths  []string       `json:"paths,omitempty" jsonschema:"maxItems=100"`                             // only the changes of these files and directories
}

// GitShow returns a commit with its changes, or a file at a commit.
func (g *git) GitShow(ctx context.Context, in gitShowIn) (string, error) {
	ctx, end, err := g.shell.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	names, err := g.shell.workspace.Names(in.Paths...)
	if err == nil {
		err = g.check(ctx)
	}
	if err != nil {
		return "", err
	}
	id, err := g.revision(ctx, in.Commit)
	if err != nil {
		return "", err
	}
	return g.output(ctx, slices.Concat([]string{"show", "--pretty=medium", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", id, "--"}, names)...)
}

type gitBranchIn struct {
	_ server.ToolTag `readOnly:"true" tags:"git"`
}

// GitBranch lists the branches, each with its last commit. The current one has an asterisk. Use
// git_checkout to create one.
func (g *git) GitBranch(ctx context.Context, _ gitBranchIn) (string, error) {
	branches, err := g.show(ctx, nil, "for-each-ref", "--format=%(HEAD) %(refname:short) %(objectname:short) %(contents:subject)", "refs/heads/")
	if err == nil && branches == "" {
		branches = "There are no branches before the first commit."
	}
	return branches, err
}

type gitCheckoutIn struct {
	_      server.ToolTag `destructive:"true" idempotent:"true" tags:"git"`
	Branch string         `json:"branch" jsonschema:"minLength=1,maxLength=1000"`       // a branch, or a commit to look at or to restore files from
	Create bool           `json:"create,omitempty"`                                     // create the branch at the current commit
	Paths  []string       `json:"paths,omitempty" jsonschema:"minItems=1,maxItems=100"` // stay on the current branch, and replace these files and directories by those of the given one; their uncommitted changes are lost
}

// GitCheckout switches to a branch. It refuses that if uncommitted changes would be lost.
func (g *git) GitCheckout(ctx context.Context, in gitCheckoutIn) (string, error) {
	ctx, end, err := g.shell.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	names, err := g.shell.workspace.Names(in.Paths...)
	if err == nil {
		err = g.check(ctx)
	}
	if err == nil {
		err = g.checkLinks(ctx)
	}
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(in.Branch, "-"):
		return "", fmt.Errorf("the name %.80q begins with a hyphen", in.Branch)
	case in.Create && len(names) > 0:
		return "", errors.New("paths are of a branch that exists: leave out create")
	case in.Create:
		_, err = g.output(ctx, "checkout", "--quiet", "--no-track", "-b", in.Branch, "--")
		return "Created the branch " + in.Branch, err
	}
	// git checkout prefers a branch, other commands a tag with its name. What is checked must be what is checked out.
	name, to := in.Branch, []string{in.Branch}
	_, noBranch := g.output(ctx, "show-ref", "--verify", "--quiet", "refs/heads/"+in.Branch)
	if noBranch == nil {
		name = "refs/heads/" + in.Branch
	}
	id, err := g.revision(ctx, name+"^{commit}")
	if err != nil {
		return "", err
	}
	if noBranch != nil {
		to = []string{"--detach", id}
	}
	if len(names) > 0 {
		if err := g.checkProtected(ctx, slices.Concat([]string{id, "--"}, names)...); err != nil {
			return "", err
		}
		_, err = g.output(ctx, slices.Concat([]string{"checkout", "--quiet", "--no-recurse-submodules", "--no-overlay", id, "--"}, names)...)
		return fmt.Sprintf("Replaced %s by the content of %s", strings.Join(in.Paths, ", "), in.Branch), err
	}
	if err := g.checkProtected(ctx, "HEAD", id, "--"); err != nil {
		return "", err
	}
	_, err = g.output(ctx, slices.Concat([]string{"checkout", "--quiet", "--no-recurse-submodules", "--no-overwrite-ignore", "--no-guess"}, to, []string{"--"})...)
	return "Switched to " + in.Branch, err
}

// checkProtected refuses a checkout that would change protected files. revisions are the arguments of git diff.
func (g *git) checkProtected(ctx context.Context, revisions ...string) error {
	const limit = 16 << 20 // bytes
	changed, err := g.run(ctx, limit, append([]string{"diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=all", "--name-only", "-z"}, revisions...)...)
	if err != nil {
		return err
	}
	if changed.Written() > limit {
		return errors.New("too many files would change: use git itself, with run_command")
	}
	for name := range strings.SplitSeq(changed.String(), "\x00") {
		if name != "" && g.shell.workspace.IsProtected(name) {
			return &workspace.Error{Path: name, Err: workspace.ErrProtected}
		}
	}
	return nil
}

type gitAddIn struct {
	_     server.ToolTag `destructive:"false" idempotent:"true" tags:"git"`
	Paths []string       `json:"paths,omitempty" jsonschema:"maxItems=100"` // only these files and directories; default: all
}

// GitAdd stages changes, including new and deleted files, for git_commit with staged. It creates
// a repository if there is none.
func (g *git) GitAdd(ctx context.Context, in gitAddIn) (string, error) {
	ctx, end, err := g.shell.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	if _, err := g.stage(ctx, in.Paths); err != nil {
		return "", err
	}
	staged, err := g.output(ctx, "diff", "--cached", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--name-status")
	if err == nil && staged == "" {
		staged = "Nothing is staged: there are no changes."
	}
	return staged, err
}

// stage stages changes of paths, and returns the paths as arguments of git. It creates a repository if there is none.
func (g *git) stage(ctx context.Context, paths []string) (names []string, err error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	if names, err = g.shell.workspace.Names(paths...); err != nil {
		return nil, err
	}
	if err = g.check(ctx); errors.Is(err, errNoRepository) {
		_, err = g.output(ctx, "init", "--quiet", "--template=")
	}
	if err == nil {
		err = g.checkLinks(ctx)
	}
	names = append([]string{"--"}, names...)
	if err == nil {
		_, err = g.output(ctx, slices.Concat([]string{"add", "--all"}, names)...)
	}
	return names, err
}

type gitCommitIn struct {
	_       server.ToolTag `destructive:"false" idempotent:"false" tags:"git"`
	Message string         `json:"message" jsonschema:"minLength=1,maxLength=10000"` // commit message
	Paths   []string       `json:"paths,omitempty" jsonschema:"maxItems=100"`        // only these files and directories; default: all
	Staged  bool           `json:"staged,omitempty"`                                 // only what git_add has staged; paths have no effect
}

// GitCommit commits all changes, including new files. It creates a repository if there is
// none.
func (g *git) GitCommit(ctx context.Context, in gitCommitIn) (string, error) {
	ctx, end, err := g.shell.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	var paths []string
	if in.Staged {
		if err = g.check(ctx); err == nil {
			err = g.checkLinks(ctx)
		}
	} else {
		paths, err = g.stage(ctx, in.Paths)
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
