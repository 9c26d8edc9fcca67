package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/gen"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/mcp"
)

var genCommand = &command{
	name: "gen", args: "[FLAGS] TARGET", short: "write typed functions for the tools of servers, in Go, Python or TypeScript",
	long: `With -lang go, the default, it writes a Go package for one server. Each tool becomes a method with a struct of
arguments, and of results if the tool has an output schema. Each prompt becomes a method. The package
imports github.com/dovetail-go/dovetail/client.

With -lang python or typescript it writes the folder of -o: a module for the server, or for each server of
-config, and what they share. Their functions call the gateway of dovetail serve -http, which DOVETAIL_URL and
DOVETAIL_TOKEN or DOVETAIL_TOKEN_FILE name when the program runs. They need no other package.

  dovetail gen -lang python -o generated -config mcp.json

A server is called by its alias in the configuration file of the gateway; -alias is that of a TARGET without one.
With all servers of -config, modules of other servers are removed from the folder. A file that this command has
not written is never replaced.
` + targetHelp,
	run: runGen,
}

// genLanguages are the values of -lang.
var genLanguages = []string{"go", "python", "typescript"}

type genOptions struct {
	invocation

	lang, name, out, alias string
	check                  bool
}

func runGen(ctx context.Context, env *environment, sub *command, line []string) error {
	o := &genOptions{}
	flags := newFlags(sub, env.stderr)
	o.targetFlags(flags.FlagSet, time.Minute)
	flags.StringVar(&o.lang, "lang", "go", "the `language`: "+strings.Join(genLanguages, ", "))
	flags.StringVar(&o.name, "package", "", "the `name` of the Go package (default mcpclient)")
	flags.StringVar(&o.out, "o", "", "the `file` to write for Go (default standard output), or the folder for other languages")
	flags.StringVar(&o.alias, "alias", "", "the `alias` of the server at the gateway, for other languages than Go")
	flags.BoolVar(&o.check, "check", false, "write nothing; the exit status is 2 if the file or folder of -o is not up to date")
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if !slices.Contains(genLanguages, o.lang) {
		return misuse("-lang: expected one of %s%s", strings.Join(genLanguages, ", "), didYouMean(o.lang, genLanguages, ""))
	}
	if args, err = o.target.take(args, child); err != nil {
		return err
	}
	switch isGo := o.lang == "go"; {
	case len(args) > 0 || o.check && o.out == "":
		return flags.usage()
	case isGo && o.alias != "":
		return misuse("-alias is for other languages than Go")
	case !isGo && o.name != "":
		return misuse("-package is for Go")
	case !isGo && o.out == "":
		return misuse("-lang %s writes a folder: expected -o DIR", o.lang)
	case isGo:
		return o.writeGo(ctx, env)
	}
	return o.writeFolder(ctx, env)
}

// writeGo writes or checks the file of a Go package.
func (o *genOptions) writeGo(ctx context.Context, env *environment) error {
	var source []byte
	err := o.withSession(ctx, env, &person{out: env.stderr}, func(ctx context.Context, i *inspection) error {
		server, err := generated(ctx, i.session)
		if err != nil {
			return err
		}
		name := o.name
		if name == "" {
			name = "mcpclient"
		}
		source, err = gen.Go(name, server)
		return err
	})
	if err != nil {
		return err
	}
	if o.out == "" {
		_, err := env.stdout.Write(source)
		return err
	}
	if o.check {
		if now, err := os.ReadFile(o.out); err != nil || string(now) != string(source) {
			return o.outdated(env, o.out)
		}
		return nil
	}
	return replaceFile(o.out, source)
}

func (o *genOptions) outdated(env *environment, path string) error {
	fmt.Fprintf(env.stderr, "dovetail: %s is not up to date; dovetail gen without -check writes it\n", path)
	return checkFailed
}

// replaceFile writes a file, in a folder that is made if it does not exist.
func replaceFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return sharedfile.Write(filepath.Clean(path), content, 0)
}

// writeFolder writes or checks the folder of another language.
func (o *genOptions) writeFolder(ctx context.Context, env *environment) error {
	var servers []gen.Server
	err := o.withSession(ctx, env, &person{out: env.stderr}, func(ctx context.Context, i *inspection) (err error) {
		if i.servers != nil {
			servers, err = i.servers.generated()
			return err
		}
		alias, err := o.serverAlias()
		if err != nil {
			return err
		}
		server, err := generated(ctx, i.session)
		if err != nil {
			return err
		}
		server.Name = alias
		servers = []gen.Server{*server}
		return nil
	})
	if err != nil {
		return err
	}
	generate := gen.Python
	if o.lang == "typescript" {
		generate = gen.TypeScript
	}
	files, err := generate(servers)
	if err != nil {
		return err
	}
	return o.replaceFolder(env, files)
}

// serverAlias returns the alias of a single server.
func (o *genOptions) serverAlias() (string, error) {
	alias := o.alias
	if alias == "" && o.target.server != nil {
		alias = o.target.server.Alias
	}
	if alias == "" {
		return "", misuse("expected -alias NAME, the alias of the server in the configuration file of the gateway")
	}
	if err := bridge.CheckAlias(alias); err != nil {
		return "", misuse("-alias: %v", err)
	}
	return alias, nil
}

// replaceFolder writes or checks the files in the folder of -o.
func (o *genOptions) replaceFolder(env *environment, files gen.Files) error {
	old, err := o.otherFiles(files)
	if err != nil {
		return err
	}
	var names []string
	for name, content := range files {
		path := filepath.Join(o.out, filepath.FromSlash(name))
		now, err := os.ReadFile(path)
		switch {
		case err == nil && string(now) == content:
			continue
		case err == nil && !isGenerated(now):
			return fmt.Errorf("%s exists, and dovetail gen has not written it: choose another folder, or remove it", path)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if o.check {
		for _, path := range old {
			fmt.Fprintf(env.stderr, "dovetail: %s belongs to no server of the file; dovetail gen without -check removes it\n", path)
		}
		for _, name := range names {
			_ = o.outdated(env, filepath.Join(o.out, filepath.FromSlash(name)))
		}
		if len(old)+len(names) > 0 {
			return checkFailed
		}
		return nil
	}
	for _, name := range names {
		if err := replaceFile(filepath.Join(o.out, filepath.FromSlash(name)), []byte(files[name])); err != nil {
			return err
		}
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
		fmt.Fprintf(env.stderr, "dovetail: removed %s, which belongs to no server of the file\n", path)
	}
	return nil
}

// otherFiles returns the modules in the folder of -o that this command has written for servers that are no longer in the
// configuration file. There are none for a single server.
func (o *genOptions) otherFiles(files gen.Files) (others []string, err error) {
	if o.target.isOne() {
		return nil, nil
	}
	err = filepath.WalkDir(o.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		name, err := filepath.Rel(o.out, path)
		if err != nil {
			return err
		}
		extension := filepath.Ext(path)
		if _, ok := files[filepath.ToSlash(name)]; ok || extension != ".py" && extension != ".ts" {
			return nil
		}
		content, err := os.ReadFile(path) //nolint:gosec // the user has named the folder
		if err == nil && isGenerated(content) {
			others = append(others, path)
		}
		return err
	})
	return others, err
}

// isGenerated reports whether this command has written a file.
func isGenerated(content []byte) bool {
	first, _, _ := strings.Cut(string(content[:min(len(content), 200)]), "\n")
	return strings.Contains(first, gen.Marker)
}

// generated returns the servers of a configuration file with their tools, under their own names. It is an error if one of the
// servers cannot be used.
func (s *servers) generated() ([]gen.Server, error) {
	if s.mistakes {
		return nil, &unreachableError{fmt.Errorf("nothing was written, since %s has mistakes; name one server to write its module only", s.c.target.config)}
	}
	tools := make(map[string][]mcp.Tool)
	for e := range s.server.Catalog().All(mcp.KindTool) {
		var tool mcp.Tool
		if err := json.Unmarshal(e.Definition.JSON(), &tool); err != nil {
			return nil, err
		}
		tool.Name = e.Origin.Name
		tools[e.Origin.Server] = append(tools[e.Origin.Server], tool)
	}
	var all []gen.Server
	for _, state := range s.bridge.States() {
		if state.Err != nil {
			return nil, &unreachableError{fmt.Errorf("nothing was written, since the server %q cannot be used; name one server to write its module only", state.Alias)}
		}
		all = append(all, gen.Server{Name: state.Alias, Tools: tools[state.Alias]})
	}
	return all, nil
}

// generated returns a server as the input of the generator.
func generated(ctx context.Context, s *client.Session) (*gen.Server, error) {
	info := s.Server()
	server := &gen.Server{Name: info.Name, Version: info.Version}
	can := s.Capabilities()
	if can.Tools != nil {
		for tool, err := range s.Tools(ctx, nil) {
			if err != nil {
				return nil, err
			}
			server.Tools = append(server.Tools, *tool)
		}
	}
	if can.Prompts != nil {
		for prompt, err := range s.Prompts(ctx, nil) {
			if err != nil {
				return nil, err
			}
			server.Prompts = append(server.Prompts, *prompt)
		}
	}
	return server, nil
}
