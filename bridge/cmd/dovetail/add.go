package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/clients"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

var addCommand = &command{
	name: "add", args: "[FLAGS] NAME URL, or add [FLAGS] NAME -- COMMAND [ARG…]", short: "add a server to the configuration files of clients",
	long: `Adds to each client that has a file, or to the clients of -client. A program that exists is stored with its absolute
path, and so are scripts and paths in its arguments, except with -project; uv run and go run get the folder. No other byte of a file changes: comments, order and white space stay. The content before is kept in FILE.bak. Both get the mode 0600, and in a
project the mode of the file. Symbolic links of this user are followed, within the project for -project.`,
	run: runAdd,
}

var removeCommand = &command{
	name: "remove", args: "[FLAGS] NAME", short: "remove a server from the configuration files of clients",
	long: "Removes from each client that has the server, or from the clients of -client. The content before is kept in FILE.bak.",
	run:  runRemove,
}

var listCommand = &command{
	name: "list", args: "[FLAGS]", short: "list the servers in the configuration files of clients",
	run: runList,
}

// A fileSelection says which files of which clients are meant.
type fileSelection struct {
	ids     string
	project bool
	file    string
	dryRun  bool
}

func (c *fileSelection) flags(flags *flag.FlagSet, changes bool) {
	var ids []string
	for _, client := range clients.All() {
		ids = append(ids, client.ID)
	}
	flags.StringVar(&c.ids, "client", "", "the `clients`, separated by commas: "+strings.Join(ids, ", "))
	flags.BoolVar(&c.project, "project", false, "the files in the current folder instead of the user's files")
	if changes {
		flags.StringVar(&c.file, "file", "", "the `path` of the file, with one client in -client")
		flags.BoolVar(&c.dryRun, "dry-run", false, "print what would change, and change nothing")
	}
}

// A clientFile is a file of a client.
type clientFile struct {
	client *clients.Client
	path   string
	text   []byte // nil: the file does not exist
	err    error  // of reading the file
}

// system returns where the user's files are.
func system() (*clients.System, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &clients.System{
		OS: runtime.GOOS, Home: home, Project: folder, Program: program, Codex: os.Getenv("CODEX_HOME"),
		AppData: cmp.Or(os.Getenv("APPDATA"), filepath.Join(home, "AppData", "Roaming")),
		Config:  cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")),
	}, nil
}

// files returns the selected files. Without -client these are the files that exist. One that cannot
// be read does not keep the others from being used.
func (c *fileSelection) files() (*clients.System, []*clientFile, error) {
	sys, err := system()
	if err != nil {
		return nil, nil, err
	}
	var wanted []string
	if c.ids != "" {
		wanted = strings.Split(c.ids, ",")
	}
	if c.file != "" && len(wanted) != 1 {
		return nil, nil, misuse("-file is for one client: expected its name in -client")
	}
	var list []*clientFile
	for _, client := range clients.All() {
		at := slices.Index(wanted, client.ID)
		if len(wanted) > 0 && at < 0 {
			continue
		}
		path := cmp.Or(c.file, client.Path(sys, c.project))
		if at >= 0 {
			wanted[at] = ""
			if path == "" {
				return nil, nil, misuse("%s has no configuration file in a project", client.Name)
			}
		}
		if path == "" {
			continue
		}
		text, err := sharedfile.Read(path, maxSettings)
		if errors.Is(err, fs.ErrNotExist) && at < 0 {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		list = append(list, &clientFile{client, path, text, err})
	}
	for _, id := range wanted {
		if id != "" {
			return nil, nil, unknownClient(id)
		}
	}
	return sys, list, nil
}

// unknownClient returns the error of a name of -client.
func unknownClient(id string) error {
	var known []string
	for _, client := range clients.All() {
		known = append(known, client.ID)
	}
	return misuse("unknown client %.100q%s", id, didYouMean(id, known, "; dovetail help add lists them"))
}

// maxSettings is the length of the longest file of a client, in bytes.
const maxSettings = 8 << 20

func runAdd(ctx context.Context, env *environment, sub *command, line []string) error {
	var c fileSelection
	var server clients.Server
	var headers headers
	var variables variables
	force := false
	flags := newFlags(sub, env.stderr)
	c.flags(flags.FlagSet, true)
	flags.Var(&headers, "header", "`name: value` of an HTTP header, repeatable")
	flags.Var(&variables, "env", "`NAME=value` of an environment variable, repeatable")
	flags.BoolVar(&force, "force", false, "replace a server of that name")
	args, command, err := flags.parse(line)
	switch {
	case err != nil:
		return err
	case command != nil && len(args) == 1:
		server.Command, server.Args, server.Env = command[0], command[1:], variables
		if len(headers) > 0 {
			return misuse("-header is for a server at a URL")
		}
	case command == nil && len(args) == 2 && strings.Contains(args[1], "://"):
		server.URL, server.Headers = args[1], headers.values()
		if len(variables) > 0 {
			return misuse("-env is for a server that is a command")
		}
	default:
		return flags.usage()
	}
	if args[0] == "" || len(args[0]) > 100 {
		return misuse("expected a name of 1 to 100 bytes")
	}
	if command != nil && !c.project { // the paths of a project are those of several machines
		folder, err := os.Getwd()
		if err != nil {
			return err
		}
		server.Args = absoluteArguments(server.Command, server.Args, folder)
		server.Command = absoluteProgram(env, server.Command)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sys, files, err := c.files()
	if err == nil && len(files) == 0 {
		err = misuse("no client has a configuration file here: expected -client, such as -client cursor; dovetail help add lists the clients")
	}
	if err != nil {
		return err
	}
	return c.change(env, files, "added "+args[0]+" to", func(f *clientFile) ([]byte, error) {
		if has, err := f.client.Has(f.text, args[0]); err != nil {
			return nil, err
		} else if has && !force {
			return nil, fmt.Errorf("it has a server %q: -force replaces it", args[0])
		}
		return f.client.Add(sys, f.text, args[0], &server)
	})
}

// absoluteProgram returns the absolute path of a program, because clients start servers in other folders and with a shorter
// PATH. A program that does not exist keeps its name.
func absoluteProgram(env *environment, name string) string {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) { // by an entry of PATH: the folder may be of a stranger
		fmt.Fprintf(env.stderr, "dovetail: the program %s of the current folder is not stored; write ./%[1]s if you mean it\n", peertext.Quote(name))
		return name
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		fmt.Fprintf(env.stderr, "dovetail: the program %s was not found and is stored as it is; install it before a client starts\n", peertext.Quote(name))
		return name
	}
	return path
}

// interpreters are programs whose arguments name a script. A version may follow.
var interpreters = []string{"python", "node", "bun", "deno", "ruby", "perl", "php", "sh", "bash", "java", "tsx", "ts-node"}

// absoluteArguments returns the arguments of a program as they mean the same in another folder, which is the one in which
// a client starts it. The argument of uv run and go run depends on the folder in more ways, so they get its name. Of other
// programs, what exists and begins with ./ or ../ becomes absolute, and of interpreters each file with a suffix or a
// folder in its name.
func absoluteArguments(program string, args []string, folder string) []string {
	name := strings.TrimRight(strings.TrimSuffix(filepath.Base(program), ".exe"), "0123456789.")
	starts := len(args) > 1 && args[0] == "run"
	switch {
	case name == "uv" && starts && !slices.ContainsFunc(args, func(arg string) bool { return arg == "--directory" || arg == "--project" }):
		return append([]string{"--directory", folder}, args...)
	case name == "go" && starts && args[1] != "-C" && !strings.Contains(args[1], "@"):
		return append([]string{"run", "-C", folder}, args[1:]...)
	case name == "uv" || name == "go":
		return args
	}
	stored := slices.Clone(args)
	for i, arg := range args {
		info, err := os.Stat(arg)
		if err != nil || filepath.IsAbs(arg) {
			continue
		}
		slashed := filepath.ToSlash(arg)
		isPath := strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../")
		isScript := slices.Contains(interpreters, name) && info.Mode().IsRegular() && (strings.Contains(slashed, "/") || filepath.Ext(arg) != "")
		if isPath || isScript {
			stored[i] = filepath.Join(folder, arg)
		}
	}
	return stored
}

func runRemove(ctx context.Context, env *environment, sub *command, line []string) error {
	var c fileSelection
	flags := newFlags(sub, env.stderr)
	c.flags(flags.FlagSet, true)
	args, command, err := flags.parse(line)
	if err != nil {
		return err
	}
	if len(args) != 1 || command != nil {
		return flags.usage()
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, files, err := c.files()
	if err != nil {
		return err
	}
	if c.ids == "" {
		var known []string
		for _, f := range files {
			if file, _ := f.servers(); file != nil {
				known = append(known, serverNames(file)...)
			}
		}
		files = slices.DeleteFunc(files, func(f *clientFile) bool {
			has, err := f.client.Has(f.text, args[0])
			return f.err == nil && err == nil && !has
		})
		if len(files) == 0 {
			return fmt.Errorf("no client has a server %.100q%s", args[0], didYouMean(args[0], known, "; dovetail list prints those that there are"))
		}
	}
	return c.change(env, files, "removed "+args[0]+" from", func(f *clientFile) ([]byte, error) {
		return f.client.Remove(f.text, args[0])
	})
}

// change changes files. A file that cannot be changed does not keep the others from being changed.
func (c *fileSelection) change(env *environment, files []*clientFile, done string, edit func(*clientFile) ([]byte, error)) error {
	var errs []error
	for _, f := range files {
		after, err := []byte(nil), f.err
		if err == nil {
			after, err = edit(f)
		}
		if err == nil && c.dryRun {
			fmt.Fprintf(env.stdout, "%s (%s):\n%s", f.path, f.client.Name, difference(f.text, after))
			continue
		}
		if err == nil {
			err = c.replaceFile(f.path, f.text, after)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", f.client.Name, f.path, err))
			continue
		}
		fmt.Fprintf(env.stdout, "%s %s: %s\n", done, f.client.Name, f.path)
	}
	return errors.Join(errs...)
}

// replaceFile writes a file atomically, with its content before in FILE.bak. The files of users get the mode 0600, since
// they have headers and variables. The file of a project, which others may share, keeps its mode.
func (c *fileSelection) replaceFile(path string, before, after []byte) error {
	path, err := c.resolve(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return sharedfile.Write(path, after, mode)
	case err != nil:
		return err
	case c.project:
		mode = info.Mode().Perm()
	}
	current, err := sharedfile.Read(path, maxSettings)
	if err != nil {
		return err
	}
	if !bytes.Equal(current, before) {
		return errors.New("another program has changed the file")
	}
	return errors.Join(sharedfile.Write(path+".bak", before, mode), sharedfile.Write(path, after, mode))
}

// resolve returns the path of the file to write, which symbolic links may lead to. The error says that a link belongs
// to another user, that it leads nowhere, or that it leads out of the project, whose files may come from a stranger.
func (c *fileSelection) resolve(path string) (string, error) {
	resolved, err := resolveLinks(path)
	if err != nil || !c.project || c.file != "" {
		return resolved, err
	}
	folder, err := os.Getwd()
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	if err != nil {
		return "", err
	}
	if within, err := filepath.Rel(folder, resolved); err != nil || !filepath.IsLocal(within) {
		return "", fmt.Errorf("a symbolic link leads out of the project, to %s", resolved)
	}
	return resolved, nil
}

// maxLinks is the largest number of symbolic links on the way to a file.
const maxLinks = 40

// resolveLinks resolves symbolic links as [filepath.EvalSymlinks] does. The last elements of the path need not exist.
func resolveLinks(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	volume := filepath.VolumeName(path) + string(filepath.Separator)
	rest := strings.Split(strings.TrimPrefix(path, volume), string(filepath.Separator))
	at, after := volume, -1 // after is how many elements of rest come after those of the last link
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && after >= 0 && len(rest) > after:
			return "", fmt.Errorf("a symbolic link leads to %s, which does not exist", next)
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(append([]string{next}, rest[1:]...)...), nil
		case err != nil:
			return "", err
		case info.Mode().Type() != fs.ModeSymlink:
			at, rest = next, rest[1:]
			continue
		case !isTrusted(info):
			return "", fmt.Errorf("the symbolic link %s belongs to another user", next)
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many symbolic links", next)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			volume = filepath.VolumeName(target) + string(filepath.Separator)
			at, target = volume, strings.TrimPrefix(target, volume)
		}
		after = len(rest) - 1
		rest = append(strings.Split(filepath.Clean(target), string(filepath.Separator)), rest[1:]...)
	}
	return at, nil
}

// lock waits until no other process of this user changes files of clients, because each reads a file before it writes it.
// A dry run changes nothing, so it needs no lock.
func (c *fileSelection) lock(ctx context.Context) (unlock func(), err error) {
	if c.dryRun {
		return func() {}, nil
	}
	caches, err := folder(os.UserCacheDir())
	if err != nil {
		return nil, err
	}
	file, err := sharedfile.OpenLocked(ctx, filepath.Join(caches, "add.lock"))
	if err != nil {
		return nil, err
	}
	return func() { file.Close() }, nil
}

// difference returns the lines that differ between two texts, with one line around them.
func difference(before, after []byte) string {
	from, to := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	start := 0
	for start < min(len(from), len(to)) && from[start] == to[start] {
		start++
	}
	end := 0
	for end < min(len(from), len(to))-start && from[len(from)-1-end] == to[len(to)-1-end] {
		end++
	}
	var b strings.Builder
	add := func(mark string, lines []string) {
		for _, line := range lines {
			if line != "" {
				fmt.Fprintf(&b, "%s%s\n", mark, strings.TrimRight(line, "\r\n"))
			}
		}
	}
	add("  ", from[max(0, start-1):start])
	add("- ", from[start:len(from)-end])
	add("+ ", to[start:len(to)-end])
	add("  ", from[len(from)-end:min(len(from), len(from)-end+1)])
	return b.String()
}

// variables are the values of the flag -env.
type variables map[string]string

func (v *variables) String() string { return "" }

func (v *variables) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("expected NAME=value")
	}
	if *v == nil {
		*v = make(variables)
	}
	(*v)[name] = value
	return nil
}

// values returns the headers by name.
func (h headers) values() map[string]string {
	values := make(map[string]string)
	for _, header := range h {
		name, value, _ := strings.Cut(header, ":")
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return values
}

// servers returns the servers in the file, and the errors of other entries. The file is nil if it cannot
// be read.
func (f *clientFile) servers() (*config.File, error) {
	if f.err != nil {
		return nil, f.err
	}
	common, err := f.client.Servers(f.text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return config.Parse(common, f.path)
}

func runList(_ context.Context, env *environment, sub *command, line []string) error {
	var c fileSelection
	asJSON := false
	flags := newFlags(sub, env.stderr)
	c.flags(flags.FlagSet, false)
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	args, command, err := flags.parse(line)
	if err != nil {
		return err
	}
	if len(args) != 0 || command != nil {
		return flags.usage()
	}
	_, files, err := c.files()
	if err != nil {
		return err
	}
	type entry struct {
		Client string `json:"client"`
		Path   string `json:"path"`
		Name   string `json:"name"`
		Alias  string `json:"alias"`
		Type   string `json:"type"`
		Launch string `json:"launch"`
	}
	list := []entry{}
	var errs []error
	for _, f := range files {
		servers, err := f.servers()
		if err != nil {
			errs = append(errs, err)
		}
		if servers == nil {
			continue
		}
		for _, s := range servers.Servers {
			launch := shownAddress(s.URL)
			if s.Type == "stdio" { // arguments may be secret
				if launch = s.Command; len(s.Args) > 0 {
					launch += " …"
				}
			}
			list = append(list, entry{f.client.ID, f.path, s.Name, s.Alias, s.Type, launch})
		}
	}
	if asJSON {
		text, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "%s\n", text)
		return errors.Join(errs...)
	}
	if len(list) == 0 && len(errs) == 0 {
		fmt.Fprintln(env.stderr, "dovetail: no configuration file of a client has a server; dovetail add adds one")
	}
	for _, e := range list {
		fmt.Fprintf(env.stdout, "%-15s %-20s %-6s %s\n", e.Client, e.Name, e.Type, e.Launch)
	}
	return errors.Join(errs...)
}

// shownAddress returns a URL without user, password, query and fragment, which may be secret.
func shownAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// findServer returns the server with a name in the configuration files of the user or the project. A
// file of a project can come from anyone, and is used on request only.
func findServer(name string, project bool) (*config.Server, error) {
	_, files, err := (&fileSelection{project: project}).files()
	if err != nil {
		return nil, err
	}
	var errs []error
	var known []string
	for _, f := range files {
		file, err := f.servers()
		if file != nil {
			if server := namedServer(file, name); server != nil {
				return server, nil
			}
			known = append(known, serverNames(file)...)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	unknown := fmt.Errorf("no client has a server %.100q%s", name, didYouMean(name, known, ": expected a URL, the name of a server that dovetail list prints, or -- COMMAND [ARG…] at the end"))
	return nil, misuse("%v", errors.Join(append([]error{unknown}, errs...)...))
}
