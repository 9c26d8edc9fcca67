package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/internal/peertext"
)

// pinnedAlias is the name in the lock file of all servers together. The tools have their names in the bridge.
const pinnedAlias = "all"

var pinsCommand = &command{
	name: "pins", args: "[FLAGS] list, or pins [FLAGS] accept [ENTRY…]", short: "accept what dovetail serve -lock may offer",
	long: `list starts the servers of the configuration file, and prints the tools, prompts, resources, templates,
skills and events that are new or have changed since they were accepted, and so the contents of resources
whose URIs begin with ui://. Of a changed entry it prints the members that differ. An ENTRY is the name of a tool, or as it is printed, such as prompt:NAME. The exit
status is 2 if there are any, and otherwise 4 if a server did not start. accept accepts the named entries, or
all of them with -all. The exit status is 4 if -all did not reach a server, whose entries it did not accept. A running dovetail serve reads the lock file when it changes.`,
	run: runPins,
}

func loadLock(path string) (*pin.Lock, error) {
	lock, err := pin.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return pin.NewLock(path), nil
	}
	return lock, err
}

func runPins(ctx context.Context, env *environment, sub *command, line []string) error {
	var path, lockPath string
	var all, asJSON bool
	timeout := time.Minute
	flags := newFlags(sub, env.stderr)
	flags.StringVar(&path, "config", "mcp.json", "the configuration `file` with the servers")
	flags.StringVar(&lockPath, "lock", "mcp.lock", "the lock `file`")
	flags.BoolVar(&all, "all", false, "accept all entries")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.DurationVar(&timeout, "timeout", timeout, "bound on the command")
	args, command, err := flags.parse(line)
	if err != nil {
		return err
	}
	accept := len(args) > 0 && args[0] == "accept"
	if command != nil || !accept && !slices.Equal(args, []string{"list"}) || accept && all == (len(args) > 1) {
		return flags.usage()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	lock, err := loadLock(lockPath)
	if err != nil {
		return err
	}
	pending, missing, err := pendingEntries(ctx, env, path, lock, timeout)
	switch {
	case err != nil:
		return err
	case accept:
		if err := acceptPins(env, lock, pending, args[1:]); err != nil {
			return err
		}
		if all && len(missing) > 0 {
			return &unreachableError{fmt.Errorf("nothing was accepted of servers that were not reached: %s", strings.Join(missing, ", "))}
		}
		return nil
	}
	if err := printPins(env, pending, asJSON); err != nil && (err != error(checkFailed) || len(missing) == 0) {
		return err
	}
	if len(missing) > 0 { // the list is incomplete
		return unreachable
	}
	return nil
}

// pendingEntries starts the servers and returns the entries that are not as pinned. missing are the
// aliases of servers that did not start.
func pendingEntries(ctx context.Context, env *environment, path string, lock *pin.Lock, timeout time.Duration) (pending []pin.Pending, missing []string, err error) {
	all, missing, stop, err := startServers(ctx, env, path, "", timeout)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	pinned := pin.Wrap(all, pinnedAlias, lock, &pin.Options{Logger: slog.New(slog.DiscardHandler)})
	pinned.Catalog()
	if err := pinned.ReadContents(ctx); err != nil {
		printError(env.stderr, err) // the others can be accepted
	}
	return lock.Pending(), missing, nil
}

// startServers starts the servers of a configuration file, until stop is called. trust is the flag of serve. missing are the aliases
// of servers that did not start.
func startServers(ctx context.Context, env *environment, path, trust string, timeout time.Duration) (all *bridge.Bridge, missing []string, stop func(), err error) {
	c := &invocation{target: target{config: path}, timeout: timeout}
	configs, err := c.configs(ctx, env.stderr, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range configs {
		configs[i].Trusted = trusts(trust, configs[i].Alias)
	}
	if all, err = bridge.New(&bridge.Options{Logger: slog.New(slog.DiscardHandler), StartTimeout: timeout}, configs...); err != nil {
		return nil, nil, nil, err
	}
	if stop, err = all.Start(ctx); err != nil {
		return nil, nil, nil, err
	}
	(&servers{c: c, bridge: all}).report(env.stderr)
	for _, state := range all.States() {
		if state.Err != nil {
			missing = append(missing, state.Alias)
		}
	}
	return all, missing, stop, nil
}

// entryText returns the name of a tool, and for other entries the kind, a colon and the name. A tool with a colon in
// its name has its kind too.
func entryText(e pin.Entry) string {
	if e.Kind == pin.Tool && !strings.Contains(e.Name, ":") {
		return e.Name
	}
	return string(e.Kind) + ":" + e.Name
}

func acceptPins(env *environment, lock *pin.Lock, pending []pin.Pending, names []string) error {
	var entries []pin.Entry
	for _, p := range pending {
		i := slices.Index(names, entryText(p.Entry))
		switch {
		case len(names) > 0 && i < 0:
			continue
		case len(names) == 0 && p.NewDigest == "":
			fmt.Fprintf(env.stderr, "%s is not valid and cannot be accepted: %v\n", peertext.Escape(entryText(p.Entry)), p.Err)
			continue
		}
		entries = append(entries, p.Entry)
	}
	for _, name := range names {
		if !slices.ContainsFunc(entries, func(e pin.Entry) bool { return entryText(e) == name }) {
			return notPending(name, pending)
		}
	}
	if err := lock.Accept(pinnedAlias, entries...); err != nil {
		return err
	}
	if err := lock.Save(); err != nil {
		return err
	}
	for _, e := range entries {
		fmt.Fprintln(env.stdout, "accepted", peertext.Escape(entryText(e)))
	}
	return nil
}

// notPending returns the error of a name that no pending entry has.
func notPending(name string, pending []pin.Pending) error {
	var known []string
	for _, p := range pending {
		known = append(known, entryText(p.Entry))
	}
	return fmt.Errorf("%.256q: %w%s", name, pin.ErrNotPending, didYouMean(name, known, "; dovetail pins list prints those that are"))
}

func printPins(env *environment, pending []pin.Pending, asJSON bool) error {
	type shown struct {
		Kind       pin.Kind        `json:"kind"`
		Name       string          `json:"name"`
		Reason     string          `json:"reason"`
		OldDigest  string          `json:"oldDigest,omitempty"`
		NewDigest  string          `json:"newDigest,omitempty"`
		Before     json.RawMessage `json:"before,omitempty"`
		Definition json.RawMessage `json:"definition"`
	}
	if asJSON {
		list := []shown{}
		for _, p := range pending {
			list = append(list, shown{p.Kind, p.Name, p.Reason, p.OldDigest, p.NewDigest, p.Before, p.After})
		}
		text, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "%s\n", text)
	} else {
		for i := range pending {
			printPending(env.stdout, &pending[i])
		}
	}
	if len(pending) > 0 {
		return checkFailed
	}
	return nil
}

// printPending prints an entry with the members that have changed, or the definition if the accepted one is not known.
func printPending(w io.Writer, p *pin.Pending) {
	fmt.Fprintf(w, "%-8s %s\n", p.Reason, peertext.Escape(entryText(p.Entry)))
	differences, err := p.Diff()
	if p.Before == nil || err != nil {
		fmt.Fprintf(w, "         %s\n", shownJSON(p.After))
		return
	}
	for _, d := range differences {
		fmt.Fprintf(w, "         %s\n", d.Member)
		for _, side := range []struct {
			sign  string
			value json.RawMessage
		}{{"-", d.Before}, {"+", d.After}} {
			if side.value != nil {
				fmt.Fprintf(w, "         %s %s\n", side.sign, shownJSON(side.value))
			}
		}
	}
}

// shownJSON returns text of a server for a terminal.
func shownJSON(text json.RawMessage) string {
	return peertext.Cut(peertext.EscapeJSON(text), maxText)
}

var journalCommand = &command{
	name: "journal", args: "verify FILE", short: "verify a journal of approvals",
	long: `Checks that no entry was changed or removed, and that each execution follows an approval. The
printed digest, kept elsewhere, proves later that the entries until now have not changed. The exit
status is 2 if the journal is broken.`,
	run: func(_ context.Context, env *environment, sub *command, line []string) error {
		flags := newFlags(sub, env.stderr)
		args, command, err := flags.parse(line)
		if err != nil {
			return err
		}
		if len(args) != 2 || args[0] != "verify" || command != nil {
			return flags.usage()
		}
		summary, err := approval.Verify(args[1])
		if errors.Is(err, approval.ErrBroken) {
			printError(env.stderr, err)
			return checkFailed
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "%s is valid: %d entries, digest %s\n", args[1], summary.Entries, summary.Head)
		if summary.Torn > 0 {
			fmt.Fprintf(env.stdout, "ignored %d bytes of an incomplete last entry\n", summary.Torn)
		}
		for _, id := range summary.Open {
			fmt.Fprintf(env.stdout, "without an outcome: %s\n", id)
		}
		return nil
	},
}
