package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// An inspection runs one verb.
type inspection struct {
	session     *client.Session
	servers     *servers // nil: a single target
	out         io.Writer
	stderr      io.Writer
	changes     <-chan []byte
	progress    *progressBar
	text        bool          // print text for people, not JSON
	verbose     bool          // print errors in detail
	connectTime time.Duration // how long it took to open the session
}

// A verb is a command that uses a session.
type verb struct {
	usage       string
	least, most int      // the number of arguments; most is -1 without a limit
	names       *listing // has what the first argument names; nil: it names no entry
	run         func(ctx context.Context, i *inspection, args []string) error
}

const completeUsage = "complete prompt NAME ARG VALUE, or complete resource TEMPLATE ARG VALUE"

var verbs = map[string]*verb{
	"info":      {"info", 0, 0, nil, info},
	"tools":     {"tools", 0, 0, nil, list(toolListing)},
	"resources": {"resources", 0, 0, nil, list(resourceListing)},
	"templates": {"templates", 0, 0, nil, list(templateListing)},
	"prompts":   {"prompts", 0, 0, nil, list(promptListing)},
	"skills":    {"skills", 0, 0, nil, list(skillListing)},
	"events":    {"events [NAME [ARGUMENTS]]", 0, -1, &eventListing, events},
	"call":      {"call NAME [ARGUMENTS]", 1, -1, &toolListing, call},
	"read":      {"read URI", 1, 1, &resourceListing, read},
	"prompt":    {"prompt NAME [ARGUMENTS]", 1, -1, &promptListing, prompt},
	"complete":  {completeUsage, 4, 4, nil, complete},
	"watch":     {"watch [URI…]", 0, -1, nil, watch},
	"ping":      {"ping", 0, 0, nil, ping},
}

func verbNames() []string { return slices.Sorted(maps.Keys(verbs)) }

// check returns an error if the number of arguments is wrong.
func (v *verb) check(args []string) error {
	if len(args) < v.least || v.most >= 0 && len(args) > v.most {
		if v.most == 0 {
			return misuse("expected: %s alone, without %.80q", v.usage, args[0])
		}
		return misuse("expected: %s", v.usage)
	}
	return nil
}

// hasArguments reports whether the words after the first are arguments of what it names.
func (v *verb) hasArguments() bool { return v.names != nil && v.most < 0 }

// do runs the verb, and explains its error.
func (v *verb) do(ctx context.Context, i *inspection, args []string) error {
	return i.explain(ctx, v, args, v.run(ctx, i, args))
}

// print prints one JSON document.
func (i *inspection) print(document []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, document, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(i.out, indented.String())
	return err
}

// encode prints a value without escaping HTML characters.
func (i *inspection) encode(value any) error {
	encoder := json.NewEncoder(i.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// do makes a call and prints its result.
func (i *inspection) do(ctx context.Context, method string, params any) (json.RawMessage, error) {
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	result, err := i.session.Call(ctx, method, encoded, &client.CallOptions{Progress: i.progress.report})
	i.progress.clear()
	if err != nil {
		return nil, err
	}
	if i.text {
		return result, i.printText(method, result)
	}
	return result, i.print(result)
}

func info(_ context.Context, i *inspection, _ []string) error {
	document := map[string]any{
		"serverInfo":      i.session.Server(),
		"protocolVersion": i.session.Version(),
		"capabilities":    i.session.Capabilities(),
		"instructions":    i.session.Instructions(),
	}
	if i.servers != nil {
		document["servers"] = i.servers.states()
	}
	if i.text {
		return i.printInfo()
	}
	return i.encode(document)
}

func call(ctx context.Context, i *inspection, args []string) error {
	arguments, err := object(args[1:])
	if err != nil {
		return err
	}
	result, err := i.do(ctx, mcp.MethodToolsCall, map[string]any{"name": args[0], "arguments": arguments})
	if err != nil {
		return err
	}
	var outcome struct {
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(result, &outcome); err != nil {
		return err
	}
	if !outcome.IsError {
		return nil
	}
	if hint := i.suggestion(ctx, &toolListing, args); hint != "" {
		fmt.Fprintln(i.stderr, "dovetail: the tool failed"+hint)
	}
	return toolFailed
}

// object returns the arguments that are typed as one JSON object, or as name=text and name:=json.
func object(args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return json.RawMessage("{}"), nil
	}
	if typed := strings.TrimSpace(args[0]); strings.HasPrefix(typed, "{") {
		if len(args) > 1 || !json.Valid([]byte(typed)) {
			return nil, misuse("expected one JSON object, found %.80q", strings.Join(args, " "))
		}
		return json.RawMessage(typed), nil
	}
	values := make(map[string]json.RawMessage)
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		name, isJSON := strings.CutSuffix(name, ":")
		if !ok || name == "" {
			return nil, misuse("arguments must be one JSON object, or name=text and name:=json, not %.80q", arg)
		}
		if _, twice := values[name]; twice {
			return nil, misuse("the argument %.80q is there twice", name)
		}
		value := json.RawMessage(text)
		if !isJSON {
			value = jsonscan.AppendString(nil, text)
		} else if !json.Valid(value) {
			return nil, misuse("%s:= must be followed by JSON, not by %.80q; %s=%s is text", name, text, name, text)
		}
		values[name] = value
	}
	return json.Marshal(values)
}

func read(ctx context.Context, i *inspection, args []string) error {
	_, err := i.do(ctx, mcp.MethodResourcesRead, map[string]any{"uri": args[0]})
	return err
}

func prompt(ctx context.Context, i *inspection, args []string) error {
	arguments, err := object(args[1:])
	if err != nil {
		return err
	}
	_, err = i.do(ctx, mcp.MethodPromptsGet, map[string]any{"name": args[0], "arguments": arguments})
	return err
}

func complete(ctx context.Context, i *inspection, args []string) error {
	var ref map[string]any
	switch args[0] {
	case "prompt":
		ref = map[string]any{"type": "ref/prompt", "name": args[1]}
	case "resource":
		ref = map[string]any{"type": "ref/resource", "uri": args[1]}
	default:
		return misuse("expected: %s", completeUsage)
	}
	_, err := i.do(ctx, mcp.MethodComplete, map[string]any{
		"ref": ref, "argument": map[string]any{"name": args[2], "value": args[3]},
	})
	return err
}

func ping(ctx context.Context, i *inspection, _ []string) error {
	began := time.Now()
	if err := i.session.Ping(ctx); err != nil {
		return err
	}
	if i.text {
		_, err := fmt.Fprintf(i.out, "answered in %v, after %v to open the session\n", time.Since(began).Round(time.Microsecond), i.connectTime.Round(time.Millisecond))
		return err
	}
	return i.print([]byte("{}"))
}

// watch prints changes, one per line, until an interrupt or the timeout. Both end it
// without an error.
func watch(ctx context.Context, i *inspection, args []string) error {
	subscription, err := i.session.Subscribe(ctx, everyChange(args))
	if err != nil {
		return err
	}
	defer subscription.Close()
	for {
		select {
		case change := <-i.changes:
			if _, err := fmt.Fprintf(i.out, "%s\n", change); err != nil {
				return err
			}
		case <-subscription.Done():
			return errors.New("the server has ended the subscription")
		case <-ctx.Done():
			return nil
		}
	}
}

// events lists the events of a server. With a name, it prints each occurrence on a line, until an interrupt or the
// timeout. Both end it without an error.
func events(ctx context.Context, i *inspection, args []string) error {
	if len(args) == 0 {
		return list(eventListing)(ctx, i, args)
	}
	arguments, err := object(args[1:])
	if err != nil {
		return err
	}
	for event, err := range client.Events[json.RawMessage](ctx, i.session, args[0], arguments, nil) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		line, err := json.Marshal(map[string]any{"id": event.ID, "time": event.Time, "data": event.Payload})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(i.out, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// list prints a list with all pages merged into the first.
func list(l listing) func(context.Context, *inspection, []string) error {
	return func(ctx context.Context, i *inspection, _ []string) error {
		merged, err := mergedPages(ctx, i, l.method, l.member)
		if err != nil {
			return err
		}
		if i.text {
			return i.printList(merged[l.member])
		}
		return i.encode(merged)
	}
}

// mergedPages returns the first page of a list with the entries of all pages. It has the limits of a session for
// lists, but leaves out no entry.
func mergedPages(ctx context.Context, i *inspection, method, member string) (map[string]json.RawMessage, error) {
	var merged map[string]json.RawMessage
	entries := []json.RawMessage{}
	limits := client.Limits{}.WithDefaults()
	params := json.RawMessage("{}")
	seen := make(map[string]bool)
	size := 0
	for pages := 1; ; pages++ {
		result, err := i.session.Call(ctx, method, params, nil)
		if err != nil {
			return nil, err
		}
		if size += len(result); size > limits.ListBytes { // before the page is decoded
			return nil, fmt.Errorf("%s: %w", method, limits.CheckPage(pages, size, nil))
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		var more []json.RawMessage
		if err := json.Unmarshal(page[member], &more); err != nil {
			return nil, fmt.Errorf("%s: %s is no list: %w", method, member, err)
		}
		entries = append(entries, more...)
		cursor := page["nextCursor"]
		if err := cmp.Or(limits.CheckCount(0, len(entries)), limits.CheckPage(pages, size, cursor)); err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		if merged == nil {
			merged = page
		}
		if cursor == nil || string(cursor) == "null" {
			delete(merged, "nextCursor")
			merged[member], err = json.Marshal(entries)
			return merged, err
		}
		if seen[string(cursor)] {
			return nil, fmt.Errorf("%s: the server gives the same cursor again and again", method)
		}
		seen[string(cursor)] = true
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
}
