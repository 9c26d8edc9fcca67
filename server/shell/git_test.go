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

	"github.com/dovetail-go/dovetail/server/workspace"
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
	t.Parallel() // it waits for git
	u := newGitUser(t, nil)
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
	for _, call := range [][2]string{
		{"git_show", `{}`}, {"git_branch", `{}`}, {"git_checkout", `{"branch":"other","create":true}`}, {"git_checkout", `{"branch":"HEAD~1","paths":["a.txt"]}`},
		{"git_add", `{}`}, {"git_commit", `{"message":"third","staged":true}`}, {"git_checkout", `{"branch":"HEAD~1"}`},
	} {
		if got := u.call(call[0], call[1]); strings.HasPrefix(got, "error") {
			t.Errorf("%s %s: %s", call[0], call[1], got)
		}
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
			u := newGitUser(t, nil)
			u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
			u.call("git_commit", `{"message":"first"}`)
			u.run(fmt.Sprintf("OUT=%q", out), configure)
			u.call("write_file", `{"path":"b.txt","content":"b\n"}`)
			before := names(t, out)
			for _, tool := range []string{"git_status", "git_diff", "git_log", "git_show", "git_branch", "git_add", "git_checkout", "git_commit"} {
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

var gitTools = map[string]string{
	"git_status": `{}`, "git_diff": `{}`, "git_log": `{}`, "git_show": `{}`, "git_branch": `{}`,
	"git_add": `{}`, "git_checkout": `{"branch":"HEAD"}`, "git_commit": `{"message":"second"}`,
}

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
		u := newGitUser(t, nil)
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
	t.Parallel() // it waits for git
	u := newGitUser(t, nil)
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
	t.Parallel() // it waits for git
	u := newGitUser(t, nil)
	u.run(`git init -q sub; cd sub; echo a > a.txt; git add a.txt; git commit -qm first; cd ..`,
		`git init -q .; printf '[submodule "sub"]\npath = sub\nurl = ./sub\n' > .gitmodules; git add sub .gitmodules 2>/dev/null; git commit -qm first`,
		`cd sub; git config filter.evil.clean "touch $PWD/../ran-clean; cat"; echo '* filter=evil' > .gitattributes; touch -d tomorrow a.txt; cd ..`,
		`echo b > b.txt`)
	for tool, arguments := range gitTools {
		writes := tool == "git_commit" || tool == "git_add" || tool == "git_checkout"
		if got := u.call(tool, arguments); strings.HasPrefix(got, "error") != writes {
			t.Errorf("%s: %s", tool, got)
		}
	}
	ranNothing(t, u)
}

// Branches are created, listed and switched, files are restored, and what is staged is committed alone.
func TestGitBranches(t *testing.T) {
	t.Parallel() // it waits for git
	u := newGitUser(t, nil)
	want := func(tool, arguments, want string) {
		t.Helper()
		if got := u.call(tool, arguments); !strings.Contains(got, want) || want == "" && strings.HasPrefix(got, "error") {
			t.Errorf("%s %s: %s, want %s", tool, arguments, got, want)
		}
	}
	want("git_branch", `{}`, "not a git repository")
	u.call("write_file", `{"path":"a.txt","content":"one\n"}`)
	u.call("write_file", `{"path":"b.txt","content":"one\n"}`)
	want("git_add", `{"paths":["a.txt"]}`, "A\ta.txt")
	want("git_commit", `{"message":"first","staged":true}`, "a.txt")
	want("git_show", `{}`, "+one")
	want("git_show", `{"commit":"HEAD:a.txt"}`, "one\n")
	want("git_status", `{}`, "?? b.txt")
	want("git_checkout", `{"branch":"topic","create":true}`, "Created the branch topic")
	want("git_branch", `{}`, "* topic")
	u.call("write_file", `{"path":"a.txt","content":"two\n"}`)
	want("git_commit", `{"message":"second"}`, "b.txt")
	u.run(`git branch -m topic new; git branch topic HEAD~1`)
	want("git_checkout", `{"branch":"topic"}`, "Switched to topic")
	want("read_file", `{"path":"a.txt"}`, "one")
	want("git_checkout", `{"branch":"new","paths":["a.txt"]}`, "Replaced a.txt")
	want("read_file", `{"path":"a.txt"}`, "two")
	want("git_status", `{}`, "## topic\nM  a.txt")
	want("git_checkout", `{"branch":"topic","paths":["a.txt"]}`, "Replaced a.txt")
	u.call("write_file", `{"path":"a.txt","content":"three\n"}`)
	want("git_checkout", `{"branch":"new"}`, "error: ") // the change would be lost
	want("git_show", `{"commit":"new","paths":["a.txt"]}`, "+two")
	for arguments, wrong := range map[string]string{
		`{"branch":"none"}`: "no commit or branch", `{"branch":"-f"}`: "begins with a hyphen", `{"branch":"--orphan=x"}`: "begins with a hyphen",
		`{"branch":"x y","create":true}`: "error: ", `{"branch":"new","paths":["../x"]}`: "outside of the workspace", `{"branch":"x","create":true,"paths":["a.txt"]}`: "leave out create",
	} {
		want("git_checkout", arguments, wrong)
	}
	for _, name := range []string{"--all", "-p", "none", "HEAD..new", ":/", ""} {
		if got := u.call("git_show", fmt.Sprintf(`{"commit":%q}`, name)); !strings.HasPrefix(got, "error: ") {
			t.Errorf("git_show %q: %s", name, got)
		}
	}
}

// A checkout changes no file that file tools cannot change.
func TestGitCheckoutKeepsProtected(t *testing.T) {
	t.Parallel() // it waits for git
	u := newGitUser(t, nil)
	u.run(`git init -q .; echo a > a.txt; git add a.txt; git commit -qm first`, `git checkout -qb evil; mkdir -p sub; echo x > a.txt`,
		// .git itself is in no commit, but the protected name of another directory may be.
		`git add .; git commit -qm second; git checkout -q -`)
	protected, err := workspace.Open(u.files.Dir(), &workspace.Options{Protected: []string{".git", "A.TXT"}})
	if err != nil {
		t.Fatal(err)
	}
	defer protected.Close()
	u.shell.workspace = protected
	// git checkout prefers the branch heads/main to the branch main, and other commands a tag to both.
	u.run(`git branch heads/main evil; git branch main 2>/dev/null; git branch tagged evil; git tag tagged main`)
	for _, arguments := range []string{`{"branch":"heads/main"}`, `{"branch":"tagged"}`, `{"branch":"evil"}`, `{"branch":"evil","paths":["."]}`, `{"branch":"evil","paths":["a.txt"]}`} {
		if got := u.call("git_checkout", arguments); !strings.Contains(got, "is protected") {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	if got := u.call("read_file", `{"path":"a.txt"}`); !strings.Contains(got, "1\ta\n") {
		t.Error(got)
	}
}

// git_push exists if the operator allows URLs, pushes only there, and runs no programs that the repository names.
func TestGitPush(t *testing.T) {
	t.Parallel() // it waits for git
	remotes := t.TempDir()
	allowed, other := "file://"+filepath.Join(remotes, "allowed.git"), "file://"+filepath.Join(remotes, "other.git")
	u := newGitUser(t, &Options{PushURLs: []string{allowed}})
	u.run(fmt.Sprintf("git init -q --bare %q; git init -q --bare %q", filepath.Join(remotes, "allowed.git"), filepath.Join(remotes, "other.git")))
	pushed := func() string {
		t.Helper()
		return u.call("run_command", fmt.Sprintf(`{"command":"for r in %s/*.git; do git --git-dir $r for-each-ref --format '%%(refname) %%(subject)'; done"}`, remotes))
	}
	want := func(arguments, want string) {
		t.Helper()
		if got := u.call("git_push", arguments); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
	want(`{}`, "not a git repository")
	u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
	u.call("git_commit", `{"message":"first"}`)
	u.run(`git branch -M main; git branch topic`, fmt.Sprintf(`git remote add origin %s; git config branch.main.remote origin`, other))
	want(`{}`, "refs/heads/main:refs/heads/main")
	want(`{"branch":"topic"}`, "refs/heads/topic")
	want(`{"branch":"none"}`, "no branch")
	want(`{"branch":"+main"}`, "no branch")
	want(`{"url":"`+other+`"}`, "must be one of those that the operator allows: "+allowed)
	want(`{"url":"origin"}`, "must be one of those")
	if got := pushed(); !strings.Contains(got, `refs/heads/main first\nrefs/heads/topic first\n"`) {
		t.Errorf("pushed %s", got)
	}
	for _, setting := range []string{
		fmt.Sprintf("url.%s.insteadOf %s", other, allowed), fmt.Sprintf("remote.%s.pushurl %s", allowed, other), fmt.Sprintf("remote.%s.url %s", allowed, other),
		"core.sshCommand 'touch ran-ssh'", "credential.helper '!touch ran-credential'", "remote.origin.receivepack 'touch ran-pack'", "http.proxy http://evil.example",
		"include.path ../more", "core.gitProxy 'touch ran-proxy'", "push.gpgSign true", "core.askPass 'touch ran-ask'", "hook.evil.command 'touch ran-hook'",
	} {
		key, _, _ := strings.Cut(setting, " ")
		u.run("git config " + setting)
		want(`{}`, "error: ")
		u.run("git config --unset-all " + key)
	}
	u.run(`printf '#!/bin/sh\ntouch '$PWD/ran-hook > .git/hooks/pre-push 2>/dev/null || { mkdir -p .git/hooks; printf '#!/bin/sh\ntouch '$PWD/ran-hook > .git/hooks/pre-push; }; chmod +x .git/hooks/pre-push`)
	u.call("write_file", `{"path":"a.txt","content":"b\n"}`)
	u.call("git_commit", `{"message":"second"}`)
	want(`{}`, "refs/heads/main")
	u.run(`git checkout -q --orphan rewritten; git commit -qm rewritten; git branch -M main`)
	want(`{}`, "error: ") // the commits there would be lost
	if got := pushed(); !strings.Contains(got, "refs/heads/main second") || strings.Count(got, "refs/") != 2 {
		t.Errorf("pushed %s", got)
	}
	ranNothing(t, u)

	if got := newGitUser(t, nil).call("git_push", `{}`); !strings.HasPrefix(got, "failure: ") {
		t.Errorf("without allowed URLs: %s", got)
	}
	for _, url := range []string{"", "origin", "git.example/x", "ext::sh -c x", "https:///x", "https://me:secret@git.example/x", "git@git.example:x"} {
		if _, err := New(guard, u.files, &Options{PushURLs: []string{url}}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
