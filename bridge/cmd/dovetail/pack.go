package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/server/describe"
)

var packCommand = &command{
	name: "pack", args: "[FLAGS] -name NAME [TARGET]", short: "write the bundle, the server.json and the server card of a server",
	long: `The server is started to read its version, tools and prompts. With -build, the Go package is built
for Linux, macOS and Windows, and the folder of -o gets a bundle (.mcpb) for desktop applications.
With -url or -package it gets server.json for the MCP Registry, and with -url server-card.json.
TARGET is needed without -build; with -build, the program that was built is read by default.
` + targetHelp,
	run: runPack,
}

type packOptions struct {
	describe.Server
	build, out, icon, systems string
	urls, packages            paths
}

func runPack(ctx context.Context, env *environment, sub *command, line []string) error {
	c := &invocation{}
	o := &packOptions{}
	flags := newFlags(sub, env.stderr)
	c.targetFlags(flags.FlagSet, 5*time.Minute)
	flags.StringVar(&o.Name, "name", "", "the `name` in reverse DNS form, such as io.github.acme/calc")
	flags.StringVar(&o.Title, "title", "", "the name for people")
	flags.StringVar(&o.Description, "description", "", "what the server does, in at most 100 characters")
	flags.StringVar(&o.Version, "version", "", "the `version` (default the version of the server)")
	flags.StringVar(&o.Website, "website", "", "an https `URL` with more information")
	flags.StringVar(&o.Author.Name, "author", "", "the author, who is needed in a bundle")
	flags.StringVar(&o.License, "license", "", "the SPDX `identifier` of the license")
	flags.StringVar(&o.build, "build", "", "the Go `package` to build for the bundle")
	flags.StringVar(&o.systems, "systems", "linux,darwin,windows", "the operating systems of the bundle, separated by `commas`")
	flags.StringVar(&o.icon, "icon", "", "a PNG `file` for the bundle")
	flags.Var(&o.urls, "url", "the `URL` of an endpoint with streamable HTTP, repeatable")
	flags.Var(&o.packages, "package", "a package as `REGISTRY:IDENTIFIER@VERSION`, such as npm:@acme/calc@1.0.0, repeatable")
	flags.StringVar(&o.out, "o", "dist", "the `folder` to write to")
	args, child, err := flags.parse(line)
	if err != nil {
		return err
	}
	if o.Name == "" {
		return misuse("pack needs -name, the name of the server in reverse DNS form, such as io.github.acme/calc")
	}
	if o.build == "" && len(o.urls)+len(o.packages) == 0 {
		return misuse("pack needs -build PACKAGE for a bundle, or -url URL or -package REGISTRY:IDENTIFIER@VERSION for server.json")
	}
	if err := checkSystems(o.systems); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	bundle := &describe.Bundle{}
	if o.build != "" {
		folder, err := os.MkdirTemp("", "dovetail-pack")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		if bundle, err = o.programs(ctx, env.stderr, folder); err != nil {
			return err
		}
		if len(args) == 0 && child == nil {
			child = []string{filepath.Join(folder, runtime.GOOS)}
			if bundle.Programs[runtime.GOOS] == "" {
				return misuse("expected a target: no program of the bundle runs on this system")
			}
		}
	}
	if args, err = c.target.take(args, child); err != nil {
		return err
	}
	if len(args) > 0 {
		return flags.usage()
	}
	err = c.withSession(ctx, env, &person{out: env.stderr}, func(ctx context.Context, i *inspection) error {
		return o.describe(ctx, i.session)
	})
	if err != nil {
		return err
	}
	return o.write(env.stdout, bundle)
}

// platforms are the systems of a bundle, with the architecture that most machines have or emulate.
var platforms = [...]struct{ system, arch string }{{"linux", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// checkSystems returns an error for a name that is not an operating system of platforms.
func checkSystems(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		known := false
		for _, p := range platforms {
			known = known || p.system == name
		}
		if !known {
			return misuse("-systems: expected linux, darwin or windows, separated by commas, found %q", name)
		}
	}
	return nil
}

// programs builds the programs of the bundle.
func (o *packOptions) programs(ctx context.Context, stderr io.Writer, folder string) (*describe.Bundle, error) {
	programs := make(map[string]string)
	for _, p := range platforms {
		if !slices.Contains(strings.Split(o.systems, ","), p.system) {
			continue
		}
		arch := p.arch
		if p.system == runtime.GOOS {
			arch = runtime.GOARCH
		}
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(folder, p.system), o.build)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+arch)
		build.Stdout, build.Stderr = stderr, stderr
		if err := build.Run(); err != nil {
			return nil, errors.Join(fmt.Errorf("the build for %s failed", p.system), ctx.Err())
		}
		programs[p.system] = p.system
	}
	b := &describe.Bundle{Files: os.DirFS(folder), Programs: programs}
	if o.icon != "" {
		icon, err := os.ReadFile(o.icon)
		if err != nil {
			return nil, err
		}
		b.Icon = "icon.png"
		return b, os.WriteFile(filepath.Join(folder, b.Icon), icon, 0o600)
	}
	return b, nil
}

// describe fills in the server's description of itself, the endpoints and the packages.
func (o *packOptions) describe(ctx context.Context, s *client.Session) error {
	server, err := generated(ctx, s)
	if err != nil {
		return err
	}
	info := s.Server()
	if o.Version == "" {
		o.Version = info.Version
	}
	if o.Title == "" {
		o.Title = info.Title
	}
	if o.Description == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(s.Instructions()), "\n")
		o.Description = first
	}
	for _, tool := range server.Tools {
		o.Tools = append(o.Tools, describe.Tool{Name: tool.Name, Description: tool.Description})
	}
	o.MorePrompts = len(server.Prompts) > 0 // their texts are not known
	for _, url := range o.urls {
		o.Remotes = append(o.Remotes, describe.NewRemote(url))
	}
	for _, text := range o.packages {
		registry, rest, ok := strings.Cut(text, ":")
		at := strings.LastIndex(rest, "@")
		if !ok || at <= 0 {
			return misuse("-package %q: expected REGISTRY:IDENTIFIER@VERSION", text)
		}
		o.Packages = append(o.Packages, describe.Package{Registry: registry, Identifier: rest[:at], Version: rest[at+1:]})
	}
	return nil
}

// write writes the documents.
func (o *packOptions) write(stdout io.Writer, bundle *describe.Bundle) error {
	put := func(name string, text []byte) error {
		path := filepath.Join(o.out, name)
		fmt.Fprintf(stdout, "wrote %s, sha256 %s\n", path, digestOf(text))
		return sharedfile.Write(path, text, 0)
	}
	if len(bundle.Programs) > 0 {
		var b strings.Builder
		if err := o.WriteBundle(&b, bundle); err != nil {
			return err
		}
		if err := put(o.Name[strings.LastIndex(o.Name, "/")+1:]+".mcpb", []byte(b.String())); err != nil {
			return err
		}
	}
	if len(o.urls)+len(o.packages) > 0 {
		text, err := o.Registry()
		if err != nil {
			return err
		}
		if err := put("server.json", text); err != nil {
			return err
		}
	}
	if len(o.urls) == 0 {
		return nil
	}
	text, err := o.Card()
	if err != nil {
		return err
	}
	return put("server-card.json", text)
}

func digestOf(text []byte) string {
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}
