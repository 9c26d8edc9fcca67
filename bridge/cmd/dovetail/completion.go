package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/clients"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/peertext"
)

//go:embed completion
var completionScripts embed.FS

// completionCommand prints the scripts. They call completion words.
func completionCommand() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", short: "print a script with which a shell completes command lines",
		long: `It completes commands, flags, names of configured servers, and tools, prompts, resources and arguments of a
server, which it starts for that.

  bash   echo 'source <(dovetail completion bash)' >>~/.bashrc
  zsh    echo 'source <(dovetail completion zsh)' >>~/.zshrc, after compinit
  fish   dovetail completion fish >~/.config/fish/completions/dovetail.fish`,
		run: runCompletion,
	}
}

func runCompletion(ctx context.Context, env *environment, sub *command, line []string) error {
	if len(line) == 2 && line[0] == "words" { // by the scripts
		for _, c := range candidates(ctx, shellWords(line[1])) {
			fmt.Fprintf(env.raw, "%s\t%s\n", c.word, c.about) // both are escaped
		}
		return nil
	}
	args, command, err := newFlags(sub, env.stderr).parse(line)
	if err != nil {
		return err
	}
	if len(args) != 1 || command != nil {
		return misuse("expected: dovetail %s %s", sub.name, sub.args)
	}
	script, err := completionScripts.ReadFile("completion/dovetail." + args[0])
	if err != nil {
		return misuse("no completion for the shell %.100q: expected bash, zsh or fish", args[0])
	}
	_, err = env.stdout.Write(script)
	return err
}

// A candidate is a word that may follow on a command line.
type candidate struct{ word, about string }

// candidates returns the words that the last word may become. words begin with the name of the program.
func candidates(ctx context.Context, words []string) []candidate {
	if len(words) < 2 {
		return nil
	}
	typed := words[len(words)-1]
	var fitting []candidate
	for _, c := range following(ctx, words[1:len(words)-1], typed) {
		isFlag := strings.HasPrefix(c.word, "-") // or a name of a server that would be taken for one
		if strings.HasPrefix(c.word, typed) && isFlag == strings.HasPrefix(typed, "-") && peertext.Escape(c.word) == c.word {
			about, _, _ := strings.Cut(strings.TrimSpace(c.about), "\n")
			fitting = append(fitting, candidate{c.word, peertext.Escape(peertext.Cut(about, maxAbout))})
		}
	}
	return fitting
}

// maxAbout is the length of the longest description of a candidate, in bytes.
const maxAbout = 80

// following returns candidates for the word after some words.
func following(ctx context.Context, before []string, typed string) []candidate {
	switch at := commandAt(before); {
	case at < len(before):
		before = slices.Concat(before[at:at+1], before[:at], before[at+1:])
	case at == len(before) && !(at > 0 && strings.HasPrefix(typed, "-")):
		return commandCandidates(at == 0)
	default: // a flag of all commands that use a server
		before = append([]string{"call"}, before...)
	}
	if before[0] == "help" {
		return commandCandidates(false)
	}
	c := commands()[before[0]]
	if c == nil || slices.Contains(before, "--") {
		return nil
	}
	flags := helpFlags(c)
	values := make(map[string]string) // of flags
	var args []string
	for n := 1; n < len(before); n++ {
		name, isFlag := strings.CutPrefix(strings.TrimPrefix(before[n], "-"), "-")
		if isFlag = isFlag || strings.HasPrefix(before[n], "-"); !isFlag {
			args = append(args, before[n])
			continue
		}
		name, value, hasValue := strings.Cut(name, "=")
		if f := flags[name]; f != nil && f.takesValue && !hasValue {
			if n++; n == len(before) {
				return valueCandidates(name)
			}
			value = before[n]
		}
		values[name] = value
	}
	if strings.HasPrefix(typed, "-") {
		var list []candidate
		for _, f := range flags {
			list = append(list, candidate{"-" + f.name, f.about})
		}
		slices.SortFunc(list, func(a, b candidate) int { return strings.Compare(a.word, b.word) })
		return list
	}
	_, project := values["project"]
	switch kind := argumentKind(c, len(args)); {
	case kind == "TARGET", c == removeCommand && kind == "NAME":
		list := serverCandidates(values["config"], project)
		if alias, _, ok := strings.Cut(typed, "__"); ok && namesEntries(c) && slices.ContainsFunc(list, func(c candidate) bool { return c.word == alias }) {
			return mergedCandidates(entryCandidates(ctx, c.name, append(slices.Clone(before[1:]), alias)), alias)
		}
		return list
	case strings.Contains(kind, "|"):
		var list []candidate
		for word := range strings.SplitSeq(kind, "|") {
			list = append(list, candidate{word: word})
		}
		return list
	case namesEntries(c) && !project: // the files of a project may come from a stranger
		return entryCandidates(ctx, c.name, splitEntry(before[1:], args, values["config"]))
	}
	return nil
}

// namesEntries reports whether a command takes the name of an entry of a server.
func namesEntries(c *command) bool { return verbs[c.name] != nil && verbs[c.name].names != nil }

// commandAt returns the place of the command after flags of the commands that use a server. It is that of the next word if
// there is none, and greater if that is the value of a flag.
func commandAt(before []string) int {
	flags, n := helpFlags(commands()["call"]), 0
	for ; n < len(before) && strings.HasPrefix(before[n], "-"); n++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(before[n], "-"), "=")
		if f := flags[name]; f != nil && f.takesValue && !hasValue {
			n++
		}
	}
	return n
}

// mergedCandidates returns the names of a server's entries among those of all servers of a file.
func mergedCandidates(list []candidate, alias string) []candidate {
	for i := range list {
		list[i].word = alias + "__" + list[i].word
	}
	return list
}

// splitEntry replaces the first argument ALIAS__NAME, for all servers of a file, by the server and the name. Then only
// one server is started.
func splitEntry(line, args []string, file string) []string {
	if file == "" || len(args) == 0 {
		return line
	}
	alias, name, merged := strings.Cut(args[0], "__")
	if !merged || slices.ContainsFunc(serverCandidates(file, false), func(c candidate) bool { return c.word == args[0] }) {
		return line
	}
	at := slices.Index(line, args[0])
	return slices.Concat(line[:at], []string{alias, name}, line[at+1:])
}

// argumentKind returns what the usage of a command calls an argument, such as TARGET, or "".
func argumentKind(c *command, at int) string {
	usage, _, _ := strings.Cut(c.args, ",")
	kinds := slices.DeleteFunc(strings.Fields(usage), func(word string) bool { return word == "[FLAGS]" })
	if at < len(kinds) {
		return strings.Trim(kinds[at], "[]…")
	}
	return ""
}

func commandCandidates(all bool) []candidate {
	var list []candidate
	for _, g := range groups() {
		for _, c := range g.commands {
			list = append(list, candidate{c.name, c.short})
		}
	}
	if all {
		list = append(list, candidate{"help", "explain a command"}, candidate{"version", "print the version"})
	}
	return list
}

// A helpFlag is a flag in the help of a command.
type helpFlag struct {
	name, about string
	takesValue  bool
}

// flagLine is a flag in the help: its name, the kind of its value if it is not boolean, and the description if it is on the same line.
var flagLine = regexp.MustCompile(`(?m)^  -(\S+)(?: ([^\t\n]+))?(?:\t|\n    \t)(.*)$`)

// helpFlags returns the flags in the help of a command.
func helpFlags(c *command) map[string]*helpFlag {
	var help bytes.Buffer
	_ = c.run(context.Background(), &environment{stdin: strings.NewReader(""), stdout: &help, stderr: &help, terminal: &help, raw: &help}, c, []string{"-help"})
	flags := make(map[string]*helpFlag)
	for _, found := range flagLine.FindAllStringSubmatch(help.String(), -1) {
		flags[found[1]] = &helpFlag{name: found[1], about: found[3], takesValue: found[2] != ""}
	}
	return flags
}

// valueCandidates returns the values of a flag; nil: files.
func valueCandidates(name string) []candidate {
	var list []candidate
	switch name {
	case "era":
		for _, e := range eras {
			list = append(list, candidate{word: e.name})
		}
	case "approve":
		for _, mode := range approveModes {
			list = append(list, candidate{word: mode})
		}
	case "client":
		for _, client := range clients.All() {
			list = append(list, candidate{client.ID, client.Name})
		}
	}
	return list
}

// serverCandidates returns the servers of a configuration file, or of the clients' files.
func serverCandidates(path string, project bool) []candidate {
	var found []*config.File
	if path != "" {
		if file, _ := config.Load(path); file != nil {
			found = append(found, file)
		}
	} else if _, files, err := (&fileSelection{project: project}).files(); err == nil {
		for _, f := range files {
			if file, _ := f.servers(); file != nil {
				found = append(found, file)
			}
		}
	}
	var list []candidate
	for _, file := range found {
		for _, server := range file.Servers {
			if !slices.ContainsFunc(list, func(c candidate) bool { return c.word == server.Name }) {
				list = append(list, candidate{server.Name, file.Name})
			}
		}
	}
	return list
}

// completionTimeout bounds how long a person waits for the names of a server.
const completionTimeout = 10 * time.Second

// entryCandidates starts the server of a command line, and returns what may follow: a name, or an argument of a tool or
// prompt.
func entryCandidates(ctx context.Context, verb string, line []string) []candidate {
	env := &environment{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, terminal: io.Discard, raw: io.Discard}
	c, err := parseClient(verb, append(slices.Clone(line), "x="), env) // x= is in place of the word that is completed
	if err != nil {
		return nil
	}
	c.timeout, c.verbose, c.target.login = completionTimeout, false, false
	target := line[:len(line)+1-len(c.args)] // with the flags
	entries := cachedEntries(append([]string{verb}, target...), func() (entries []listed, err error) {
		failed := c.withSession(ctx, env, &person{out: io.Discard}, func(ctx context.Context, i *inspection) error {
			entries, err = i.entries(ctx, *verbs[verb].names)
			return err
		})
		return entries, failed
	})
	var list []candidate
	for _, e := range entries {
		switch {
		case len(c.args) == 1:
			list = append(list, candidate{e.key(), e.Description})
		case e.key() == c.args[0]:
			list = append(list, e.argumentCandidates(c.args[1:])...)
		}
	}
	return list
}

// argumentCandidates returns the arguments that are not given yet.
func (e *listed) argumentCandidates(given []string) []candidate {
	var list []candidate
	for _, name := range e.argumentNames() {
		if slices.ContainsFunc(given, func(arg string) bool {
			return strings.HasPrefix(arg, name+"=") || strings.HasPrefix(arg, name+":=")
		}) {
			continue
		}
		about := "optional"
		if e.requires(name) {
			about = "required"
		}
		if kind := otherThanText(e.InputSchema.Properties[name]); kind != "" {
			list = append(list, candidate{name + ":=", kind + ", " + about})
			continue
		}
		list = append(list, candidate{name + "=", about})
	}
	return list
}

// shellWords splits the beginning of a command line at spaces outside of quotes, and replaces ~ and variables as a shell
// does. The last word is not complete, and may be empty.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	for line != "" {
		r, size := utf8.DecodeRuneInString(line)
		line = line[size:]
		switch {
		case r == '\\' && quote != '\'':
			r, size = utf8.DecodeRuneInString(line)
			line = line[size:]
			inWord = true
			word.WriteRune(r)
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			inWord, quote = true, r
		case quote == 0 && (r == ' ' || r == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case r == '$' && quote != '\'' && variable.MatchString(line):
			name := variable.FindString(line)
			line = line[len(name):]
			inWord = true
			word.WriteString(os.Getenv(strings.Trim(name, "{}")))
		case r == '~' && !inWord && (line == "" || strings.HasPrefix(line, "/")):
			home, _ := os.UserHomeDir() // as in a shell without a home
			inWord = true
			word.WriteString(home)
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	return append(words, word.String())
}

// variable matches the name of a variable after $, which a shell replaces.
var variable = regexp.MustCompile(`^(?:\w+|\{\w+\})`)
