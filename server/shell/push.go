package shell

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/server"
)

// push is the service with git_push, which is offered if the operator allows URLs.
type push struct {
	git  *git
	urls []string
}

// Annotations returns the annotations of all methods.
func (p *push) Annotations() server.Annotations { return p.git.Annotations() }

// checkPushURLs refuses URLs that are not complete, or that contain a password, since callers see them.
func checkPushURLs(urls []string) error {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || !slices.Contains([]string{"https", "http", "ssh", "file"}, u.Scheme) || u.Host == "" && u.Scheme != "file" {
			return fmt.Errorf("shell: Options.PushURLs: expected URLs with https, http, ssh or file, such as https://git.example/project.git")
		}
		if _, secret := u.User.Password(); secret {
			return fmt.Errorf("shell: Options.PushURLs: expected URLs without passwords; git takes them from a credential helper")
		}
	}
	return nil
}

type gitPushIn struct {
	_      server.ToolTag `destructive:"false" idempotent:"true" openWorld:"true" timeout:"5m" tags:"git"`
	Branch string         `json:"branch,omitempty" jsonschema:"minLength=1,maxLength=1000"` // default: the current branch
	URL    string         `json:"url,omitempty" jsonschema:"minLength=1,maxLength=4096"`    // the repository to push to; needed if several are allowed
}

// GitPush pushes the commits of a branch to a repository that the operator allows. It does not
// overwrite commits that are only there.
func (p *push) GitPush(ctx context.Context, in gitPushIn) (string, error) {
	ctx, end, err := p.git.shell.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	to := in.URL
	if to == "" && len(p.urls) == 1 {
		to = p.urls[0]
	}
	if !slices.Contains(p.urls, to) {
		return "", fmt.Errorf("the url must be one of those that the operator allows: %s", strings.Join(p.urls, ", "))
	}
	if err := p.git.check(ctx); err != nil {
		return "", err
	}
	if err := p.checkSettings(ctx); err != nil {
		return "", err
	}
	branch := in.Branch
	if branch == "" {
		if branch, err = p.git.output(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil {
			return "", fmt.Errorf("there is no current branch: name one")
		}
		branch = strings.TrimSpace(branch)
	}
	ref := "refs/heads/" + branch
	if _, err := p.git.output(ctx, "show-ref", "--verify", "--quiet", ref); err != nil {
		return "", fmt.Errorf("there is no branch %.80q with commits", branch)
	}
	scheme, _, _ := strings.Cut(to, ":")
	output, err := p.git.runOver(ctx, scheme, 64<<10, "push", "--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no", "--", to, ref+":"+ref)
	return output.Text(), err
}

// settings are the keys of a repository's own configuration that neither name a program nor change where git pushes to.
// git does not use the remotes, since git_push names the URL.
var settings = regexp.MustCompile(`^(core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|abbrev|quotepath)|` +
	`user\.(name|email)|init\.defaultbranch|(color|advice|pull|rebase)\..*|merge\.(conflictstyle|ff)|push\.(default|autosetupremote)|` +
	`branch\..*\.(remote|merge|rebase|description)|remote\.[\w.-]+\.(url|fetch|tagopt|prune))$`)

// checkSettings refuses a repository with other settings of its own.
func (p *push) checkSettings(ctx context.Context) error {
	keys, err := p.git.settings(ctx, "--null", "--list")
	if err != nil {
		return err
	}
	fields := strings.Split(strings.TrimSuffix(keys, "\x00"), "\x00") // scope, key, scope, key …
	for i := 0; i+1 < len(fields); i += 2 {
		if scope, key := fields[i], fields[i+1]; (scope == "local" || scope == "worktree") && !settings.MatchString(key) {
			return fmt.Errorf("the repository's configuration has the setting %.80q, which could change where git pushes to or run a program: ask the operator to push", key)
		}
	}
	return nil
}
