//go:build unix

package shell

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ranNothing checks that no program of a repository has run: each would leave a file.
func ranNothing(t *testing.T, u *user) {
	t.Helper()
	if ran := u.call("search_files", `{"pattern":"ran-*"}`); !strings.Contains(ran, "Nothing") {
		t.Errorf("these ran: %s", ran)
	}
}

// run runs commands that must not fail.
func (u *user) run(lines ...string) {
	u.t.Helper()
	command, err := json.Marshal(map[string]string{"command": "set -e\nexport GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e\n" + strings.Join(lines, "\n")})
	if err != nil {
		u.t.Fatal(err)
	}
	if got := u.call("run_command", string(command)); !strings.Contains(got, `"exit_code":0`) {
		u.t.Fatal(got)
	}
}

// The git tools run neither hooks nor programs that files of the repository name.
func TestGitRunsNothing(t *testing.T) {
	u := newUser(t, nil)
	u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
	u.call("git_commit", `{"message":"first"}`)
	u.run(
		`mkdir -p .git/hooks`,
		`for h in pre-commit post-commit post-index-change fsmonitor pre-auto-gc reference-transaction; do printf '#!/bin/sh\ntouch '$PWD/ran-$h > .git/hooks/$h; chmod +x .git/hooks/$h; done`,
		`git config core.fsmonitor .git/hooks/fsmonitor`,
		`git config core.pager 'touch ran-pager'; git config core.editor 'touch ran-editor'; git config core.sshCommand 'touch ran-ssh'`,
		`git config diff.external 'touch ran-diff'; git config diff.evil.textconv 'touch ran-textconv; cat'; git config diff.evil.command 'touch ran-command'`,
		`git config commit.gpgSign true; git config log.showSignature true; git config gpg.program "$PWD/.git/hooks/fsmonitor"`,
		`git config maintenance.commit-graph.enabled true; git config gc.auto 1; git config maintenance.auto true`,
		`git config merge.evil.driver 'touch ran-merge'; git config credential.helper '!touch ran-credential'`,
		`echo '*.txt diff=evil merge=evil' > .gitattributes`,
		// git would fetch missing objects from this remote.
		`git config core.repositoryFormatVersion 1; git config extensions.partialClone evil; git config remote.evil.promisor true`,
		`git config protocol.ext.allow always; git config remote.evil.url "ext::sh -c touch% $PWD/ran-fetch"`,
	)
	u.call("edit_file", `{"path":"a.txt","old_string":"a","new_string":"b"}`)
	for _, tool := range []string{"git_status", "git_diff", "git_log"} {
		if got := u.call(tool, `{}`); strings.HasPrefix(got, "error") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got := u.call("git_commit", `{"message":"second"}`); !strings.Contains(got, "second") {
		t.Error(got)
	}
	u.run(`rm -rf .git/objects/$(git -c core.fsmonitor=false -c core.hooksPath=/dev/null rev-parse HEAD:a.txt | cut -c1-2)`, `rm -f ran-*; echo c > a.txt`)
	u.call("git_diff", `{}`) // it fails
	ranNothing(t, u)
}

// A repository that is elsewhere, or that names another directory as its files, is neither
// read nor written.
func TestGitStaysInTheWorkspace(t *testing.T) {
	for name, configure := range map[string]string{
		"core.worktree": `git config core.worktree "$OUT"`,
		"relative":      `git config core.worktree "../../$(basename "$OUT")"`,
		"file":          `mv .git "$OUT/git"; echo "gitdir: $OUT/git" > .git`,
		"link":          `mv .git "$OUT/git"; ln -s "$OUT/git" .git`,
		"commondir":     `cp -r .git "$OUT/git"; echo "$OUT/git" > .git/commondir`,
		"objects":       `mv .git/objects "$OUT/objects"; ln -s "$OUT/objects" .git/objects`,
		"alternates":    `mkdir -p .git/objects/info; cp -r .git/objects "$OUT/objects"; echo "$OUT/objects" > .git/objects/info/alternates`,
		"refs":          `mv .git/refs "$OUT/refs"; ln -s "$OUT/refs" .git/refs`,
		"index":         `mv .git/index "$OUT/index"; ln -s "$OUT/index" .git/index`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for git
			out := t.TempDir()
			if err := os.WriteFile(filepath.Join(out, "secret.txt"), []byte("of the user\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			u := newUser(t, nil)
			u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
			u.call("git_commit", `{"message":"first"}`)
			u.run(fmt.Sprintf("OUT=%q", out), configure)
			u.call("write_file", `{"path":"b.txt","content":"b\n"}`)
			before := names(t, out)
			for _, tool := range []string{"git_status", "git_diff", "git_log", "git_commit"} {
				got := u.call(tool, gitTools[tool])
				if strings.Contains(got, "secret") {
					t.Errorf("%s: %s", tool, got)
				}
				worktree := name == "core.worktree" || name == "relative"
				if refused := strings.Contains(got, "elsewhere"); refused == worktree {
					t.Errorf("%s: %s", tool, got)
				}
			}
			if after := names(t, out); after != before {
				t.Errorf("outside there was\n%sand is\n%s", before, after)
			}
		})
	}
}

// names lists the files below a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		fmt.Fprintln(&list, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

var gitTools = map[string]string{"git_status": `{}`, "git_diff": `{}`, "git_log": `{}`, "git_commit": `{"message":"second"}`}

// A repository that names filters is refused, wherever its configuration names them. Filters of
// the user's own configuration are applied.
func TestGitFilters(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[filter \"mine\"]\n\tclean = tr a-z A-Z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, configure := range map[string]string{
		"clean":    `git config filter.evil.clean 'touch ran-clean; cat'`,
		"process":  `git config filter.evil.process 'touch ran-process'`,
		"included": `printf '[filter "evil"]\nclean = touch ran-included; cat\n' > more; git config include.path ../more`,
		"worktree": `git config core.repositoryFormatVersion 1; git config extensions.worktreeConfig true; git config --worktree filter.evil.clean 'touch ran-worktree; cat'`,
		"hook":     `git config hook.evil.command 'touch ran-hook'; git config hook.evil.event pre-commit`,
	} {
		u := newUser(t, nil)
		u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
		u.call("write_file", `{"path":"b.md","content":"b\n"}`)
		u.call("write_file", `{"path":".gitattributes","content":"*.txt filter=evil\n*.md filter=mine\n"}`)
		if got := u.call("git_commit", `{"message":"first"}`); strings.HasPrefix(got, "error") {
			t.Errorf("%s: %s", name, got)
		}
		u.run(`[ "$(git show HEAD:b.md)" = B ]`, configure)
		u.call("write_file", `{"path":"a.txt","content":"c\n"}`)
		for tool, arguments := range gitTools {
			if got := u.call(tool, arguments); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, ".evil.") {
				t.Errorf("%s, %s: %s", name, tool, got)
			}
		}
		ranNothing(t, u)
	}
}

// A directory that file tools have written in the form of a bare repository is not used as one.
func TestGitBareLayout(t *testing.T) {
	u := newUser(t, nil)
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/main\n", "objects/keep": "", "refs/keep": "", ".gitattributes": "*.txt filter=evil\n", "a.txt": "a\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n[filter \"evil\"]\n\tclean = touch ran-clean; cat\n",
	} {
		arguments, err := json.Marshal(map[string]string{"path": name, "content": text})
		if err != nil {
			t.Fatal(err)
		}
		u.call("write_file", string(arguments))
	}
	for _, tool := range []string{"git_status", "git_diff", "git_log"} {
		if got := u.call(tool, `{}`); !strings.Contains(got, "not a git repository") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	u.run("mkdir .git") // and git looks further
	for _, tool := range []string{"git_status", "git_diff", "git_log"} {
		if got := u.call(tool, `{}`); !strings.HasPrefix(got, "error: ") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	u.run("rmdir .git")
	if got := u.call("git_commit", `{"message":"first"}`); !strings.Contains(got, "a.txt") {
		t.Error(got)
	}
	ranNothing(t, u)
}

// Git runs nothing in a repository in the repository either.
func TestGitSubmodule(t *testing.T) {
	u := newUser(t, nil)
	u.run(`git init -q sub; cd sub; echo a > a.txt; git add a.txt; git commit -qm first; cd ..`,
		`git init -q .; printf '[submodule "sub"]\npath = sub\nurl = ./sub\n' > .gitmodules; git add sub .gitmodules 2>/dev/null; git commit -qm first`,
		`cd sub; git config filter.evil.clean "touch $PWD/../ran-clean; cat"; echo '* filter=evil' > .gitattributes; touch -d tomorrow a.txt; cd ..`,
		`echo b > b.txt`)
	for tool, arguments := range gitTools {
		if got := u.call(tool, arguments); strings.HasPrefix(got, "error") != (tool == "git_commit") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	ranNothing(t, u)
}
