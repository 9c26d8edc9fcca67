package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/gen"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

var genCommand = &command{
	name: "gen", args: "[FLAGS] TARGET", short: "write a Go package with a typed client for the tools and prompts of a server",
	long: `Each tool becomes a method with a struct of arguments, and of results if the tool has an output
schema. Each prompt becomes a method. The package imports github.com/dovetail-go/dovetail/client.
` + targetHelp,
	run: runGen,
}

func runGen(ctx context.Context, env *environment, sub *command, line []string) error {
	c := &invocation{}
	var name, out string
	check := false
	flags := newFlags(sub, env.stderr)
	c.targetFlags(flags.FlagSet, time.Minute)
	flags.StringVar(&name, "package", "mcpclient", "the `name` of the package")
	flags.StringVar(&out, "o", "", "the `file` to write, in a folder that is made if it does not exist (default standard output)")
	flags.BoolVar(&check, "check", false, "write nothing; the exit status is 2 if the file of -o is not up to date")
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if args, err = c.target.take(args, child); err != nil {
		return err
	}
	if len(args) > 0 || check && out == "" {
		return flags.usage()
	}
	var source []byte
	err = c.withSession(ctx, env, &person{out: env.stderr}, func(ctx context.Context, i *inspection) error {
		server, err := generated(ctx, i.session)
		if err != nil {
			return err
		}
		source, err = gen.Go(name, server)
		return err
	})
	if err != nil {
		return err
	}
	if out == "" {
		_, err := env.stdout.Write(source)
		return err
	}
	if check {
		if now, err := os.ReadFile(out); err != nil || string(now) != string(source) {
			fmt.Fprintf(env.stderr, "dovetail: %s is not up to date; dovetail gen without -check writes it\n", out)
			return checkFailed
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o750); err != nil {
		return err
	}
	return sharedfile.Write(filepath.Clean(out), source, 0)
}

// generated returns the input of the generator.
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
