package shell

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
)

// npm is the service with the tools for packages of Node.js, which are offered if the operator allows them.
type npm struct{ shell *Shell }

// Annotations returns the annotations of all methods.
func (*npm) Annotations() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}}
}

// run runs npm in a directory of the workspace.
func (n *npm) run(ctx context.Context, r *server.Request, dir string, timeout float64, args ...string) (commandResult, error) {
	ctx, end, err := n.shell.begin(ctx)
	if err != nil {
		return commandResult{}, err
	}
	defer end()
	if dir, err = n.shell.workspace.Resolve(dir); err != nil {
		return commandResult{}, err
	}
	// Without a prefix, npm may choose a directory above that has a package.json.
	options := []string{"--prefix=" + dir, "--no-update-notifier", "--no-fund", "--no-audit", "--no-color"}
	command := n.shell.command(&process.Command{Path: "npm", Args: append(options, args...)})
	command.Dir = dir
	return n.shell.runToEnd(ctx, r, command, timeout)
}

type npmInstallIn struct {
	_        server.ToolTag `idempotent:"true" tags:"npm"`
	Packages []string       `json:"packages,omitempty" jsonschema:"maxItems=100"`                        // such as express or @types/node@22; default: the dependencies in package.json
	Dev      bool           `json:"dev,omitempty"`                                                       // add the packages to devDependencies
	Scripts  bool           `json:"scripts,omitempty"`                                                   // run the install scripts of packages, which some need to build a program
	Path     string         `json:"path,omitempty" jsonschema:"default=."`                               // the directory with package.json
	Timeout  float64        `json:"timeout,omitempty" jsonschema:"minimum=0.1,maximum=3600,default=600"` // seconds until npm and its processes are killed
}

// packageName is the name of a package of the registry, with a version, range or tag. Other forms are URLs, and paths that
// may lead outside of the workspace.
var packageName = regexp.MustCompile(`^(@[a-zA-Z0-9~][\w.~-]*/)?[a-zA-Z0-9~][\w.~-]*(@[\w~^<>=*|+ -][\w.~^<>=*|+ -]*)?$`)

// NpmInstall installs packages of the npm registry. By default it runs no scripts of the
// packages.
func (n *npm) NpmInstall(ctx context.Context, r *server.Request, in npmInstallIn) (commandResult, error) {
	args := []string{"install"}
	if in.Dev {
		args = append(args, "--save-dev")
	}
	if !in.Scripts {
		args = append(args, "--ignore-scripts")
	}
	for _, name := range in.Packages {
		if !packageName.MatchString(name) {
			return commandResult{}, fmt.Errorf("%.80q is not the name of a package in the registry, such as express or @types/node@22", name)
		}
	}
	return n.run(ctx, r, in.Path, in.Timeout, slices.Concat(args, []string{"--"}, in.Packages)...)
}

type npmRunIn struct {
	_         server.ToolTag `idempotent:"false" tags:"npm"`
	Script    string         `json:"script" jsonschema:"minLength=1,maxLength=1000"`                      // the name of the script
	Arguments []string       `json:"arguments,omitempty" jsonschema:"maxItems=100"`                       // arguments of the script
	Path      string         `json:"path,omitempty" jsonschema:"default=."`                               // the directory with package.json
	Timeout   float64        `json:"timeout,omitempty" jsonschema:"minimum=0.1,maximum=3600,default=120"` // seconds until the script and its processes are killed
}

// NpmRun runs a script of package.json and waits for its end. Use run_background for a script
// that goes on, such as a server.
func (n *npm) NpmRun(ctx context.Context, r *server.Request, in npmRunIn) (commandResult, error) {
	if strings.HasPrefix(in.Script, "-") {
		return commandResult{}, fmt.Errorf("the name %.80q begins with a hyphen", in.Script)
	}
	return n.run(ctx, r, in.Path, in.Timeout, slices.Concat([]string{"run", in.Script, "--"}, in.Arguments)...)
}

type npmTestIn struct {
	_         server.ToolTag `idempotent:"false" tags:"npm"`
	Arguments []string       `json:"arguments,omitempty" jsonschema:"maxItems=100"`                       // arguments of the test script
	Path      string         `json:"path,omitempty" jsonschema:"default=."`                               // the directory with package.json
	Timeout   float64        `json:"timeout,omitempty" jsonschema:"minimum=0.1,maximum=3600,default=600"` // seconds until the tests and their processes are killed
}

// NpmTest runs the script test of package.json and waits for its end.
func (n *npm) NpmTest(ctx context.Context, r *server.Request, in npmTestIn) (commandResult, error) {
	return n.run(ctx, r, in.Path, in.Timeout, slices.Concat([]string{"test", "--"}, in.Arguments)...)
}
