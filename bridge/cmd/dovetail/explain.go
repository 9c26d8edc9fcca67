package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// An explainedError says in one sentence what has failed and what to do next.
type explainedError struct {
	text   string
	cause  error
	detail bool // add a line with the cause
}

func (e *explainedError) Error() string {
	if e.detail {
		return e.text + "\n" + e.cause.Error()
	}
	return e.text
}

func (e *explainedError) Unwrap() error { return e.cause }

// cannotConnect explains why no session with a server could be opened.
func (c *invocation) cannotConnect(err error) error {
	return &unreachableError{&explainedError{"cannot connect to the server: " + connectProblem(err, c.verbose), err, c.verbose}}
}

// connectProblem says why no session could be opened, and what to do. It advises -verbose, unless that is set.
func connectProblem(err error, verbose bool) string {
	if problem := dialProblem(err, verbose); problem != "" {
		return problem
	}
	text, more := innermost(err), "; -verbose shows the messages"
	if errors.Is(err, context.DeadlineExceeded) {
		text, more = "no answer in time; -timeout gives it longer", ", and -verbose shows what it writes"
	}
	if verbose {
		return text
	}
	return text + more
}

// dialProblem explains a failure of a program or of the network, "" for another.
func dialProblem(err error, verbose bool) string {
	if demanded, ok := errors.AsType[*loginError](err); ok {
		return demanded.Error()
	}
	if ended, ok := errors.AsType[*stdio.ExitError](err); ok {
		return endProblem(ended, verbose)
	}
	if unknown, ok := errors.AsType[*exec.Error](err); ok {
		return fmt.Sprintf("the program %s was not found; install it, or give its path", peertext.Quote(unknown.Name))
	}
	if refused, ok := errors.AsType[*httptransport.StatusError](err); ok {
		return statusProblem(refused)
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the host %s was not found; check the URL and the network", peertext.Quote(unknown.Name))
	}
	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return invalid.Error() + "; check the URL, or install the certificate of the issuer"
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" && failed.Addr != nil {
		return fmt.Sprintf("%v: %v; start the server there, or check the URL", failed.Addr, errors.Unwrap(failed))
	}
	if missing, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Sprintf("%s: %v; check the path of the program", missing.Path, missing.Err)
	}
	return ""
}

// signaled is what shells add to the number of a signal in the status of a command that it has ended.
const signaled = 128

// endProblem explains the end of a program.
func endProblem(ended *stdio.ExitError, verbose bool) string {
	text := ended.Error()
	status, failed := errors.AsType[*exec.ExitError](ended.Err)
	switch {
	case failed && status.ExitCode() > signaled:
		return fmt.Sprintf("%s; this status is that of a command that a signal has ended (%v): look for a limit of memory or time, or for who stops it", text, syscall.Signal(status.ExitCode()-signaled))
	case ended.Stderr == "" && ended.Err == nil:
		return text + "; the command must be a server on standard input and output"
	case ended.Stderr == "":
		return text + "; it wrote no error: run the command by itself to see what it does"
	case verbose:
		return text
	}
	return text + "; -verbose shows all that it writes"
}

// statusProblem explains an HTTP status.
func statusProblem(refused *httptransport.StatusError) string {
	status := fmt.Sprintf("status %d %s", refused.Status, http.StatusText(refused.Status))
	switch {
	case refused.Status == http.StatusUnauthorized:
		return "the server refuses the credentials in the header Authorization (" + status + "); check them"
	case refused.Status == http.StatusForbidden:
		return refused.Error() + "; check the token, and the host names that the server allows"
	case slices.Contains([]int{400, 404, 405, 406, 410, 415, 501}, refused.Status):
		return "the URL answers with " + status + "; it is probably not that of an MCP server, which often ends with /mcp"
	}
	return refused.Error() + "; try again later"
}

// innermost returns the reason in the errors of calls, without what each layer has added.
func innermost(err error) string {
	for call, ok := errors.AsType[*jsonrpc.CallError](err); ok && call.Err != nil; call, ok = errors.AsType[*jsonrpc.CallError](err) {
		err = call.Err
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return "the server answered: " + oneLine(answer.Message)
	}
	text := err.Error()
	for _, layer := range []string{"client: ", "connecting: ", "initializing: "} {
		text = strings.TrimPrefix(text, layer)
	}
	return text
}

// oneLine returns a text of a server as one line of visible characters.
func oneLine(text string) string { return peertext.Escape(peertext.Cut(text, maxText)) }

// explain returns the error of a verb for a person. It may ask the server for a list, to suggest a name.
func (i *inspection) explain(ctx context.Context, v *verb, args []string, err error) error {
	if err == nil || errors.As(err, new(exitStatus)) || errors.As(err, new(*usageError)) {
		return err
	}
	var text string
	call, unanswered := errors.AsType[*jsonrpc.CallError](err)
	answer, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case unanswered && errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("no answer in time (%v); -timeout gives the server longer", call.Delivery)
	case unanswered && dialProblem(err, i.verbose) != "":
		text = fmt.Sprintf("no answer (%v): %s", call.Delivery, dialProblem(err, i.verbose))
	case unanswered && call.Delivery == jsonrpc.NotSent: // the server cannot do this
		text = innermost(err) + "; info shows what it offers"
	case unanswered:
		text = fmt.Sprintf("no answer (%v): %s", call.Delivery, innermost(err))
	case answered && answer.Code == jsonrpc.MethodNotFound:
		text = "the server cannot do this: " + oneLine(answer.Message) + "; info shows what it offers"
	case answered:
		text = "the server answered: " + oneLine(answer.Message) + i.suggestion(ctx, v.names, args)
	default:
		return err
	}
	return &explainedError{text, err, i.verbose}
}

// A listing is a list of a server with names that verbs take.
type listing struct {
	verb           string // that prints the list
	noun           string // for one entry
	method, member string
}

var (
	toolListing     = listing{"tools", "tool", mcp.MethodToolsList, "tools"}
	promptListing   = listing{"prompts", "prompt", mcp.MethodPromptsList, "prompts"}
	resourceListing = listing{"resources", "resource", mcp.MethodResourcesList, "resources"}
	templateListing = listing{"templates", "template", mcp.MethodResourceTemplatesList, "resourceTemplates"}
	skillListing    = listing{"skills", "skill", mcp.MethodSkillsList, "skills"}
	eventListing    = listing{"events", "event", mcp.MethodEventsList, "events"}
)

// A listed is an entry of a list.
type listed struct {
	Name, Title, Description, URI, URITemplate string
	InputSchema                                struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	Arguments []struct {
		Name     string
		Required bool
	}
}

// key is what verbs take for the entry.
func (e *listed) key() string {
	if key := e.URI + e.URITemplate; key != "" {
		return key
	}
	return e.Name
}

// argumentNames returns the names of all arguments.
func (e *listed) argumentNames() []string {
	var names []string
	for name := range e.InputSchema.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, a := range e.Arguments {
		names = append(names, a.Name)
	}
	return names
}

// requires reports whether an argument is required.
func (e *listed) requires(argument string) bool {
	for _, a := range e.Arguments {
		if a.Name == argument {
			return a.Required
		}
	}
	return slices.Contains(e.InputSchema.Required, argument)
}

// entries returns the entries of a list.
func (i *inspection) entries(ctx context.Context, l listing) ([]listed, error) {
	merged, err := mergedPages(ctx, i, l.method, l.member)
	if err != nil {
		return nil, err
	}
	var entries []listed
	return entries, json.Unmarshal(merged[l.member], &entries)
}

// suggestionTimeout bounds how long a list of the server delays an error.
const suggestionTimeout = 2 * time.Second

// suggestion says what to do after the server has refused the entry that args name, or its arguments. It is "" if the
// list of the server does not help. names may be nil.
func (i *inspection) suggestion(ctx context.Context, names *listing, args []string) string {
	if names == nil || len(args) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, suggestionTimeout)
	defer cancel()
	entries, err := i.entries(ctx, *names)
	if err != nil || len(entries) == 0 {
		return ""
	}
	var keys []string
	for _, e := range entries {
		if e.key() == args[0] {
			return argumentSuggestion(&e, args[1:])
		}
		keys = append(keys, e.key())
	}
	otherwise := fmt.Sprintf("; %s lists the %ss of the server", names.verb, names.noun)
	if names == &resourceListing { // a template may have the resource
		otherwise = ""
	}
	return didYouMean(args[0], keys, otherwise)
}

// argumentSuggestion says which arguments of a tool or prompt are wrong, "" if none is.
func argumentSuggestion(e *listed, args []string) string {
	given, err := object(args)
	if err != nil {
		return ""
	}
	var values map[string]json.RawMessage
	if json.Unmarshal(given, &values) != nil {
		return ""
	}
	known := e.argumentNames()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		if slices.Contains(known, name) {
			if kind := otherThanText(e.InputSchema.Properties[name]); kind != "" && value[0] == '"' {
				return fmt.Sprintf("; %s is of the type %s: write %s:=VALUE", peertext.Quote(name), kind, oneLine(name))
			}
			continue
		}
		if question := didYouMean(name, known, ""); question != "" {
			return fmt.Sprintf("; it has no argument %s%s", peertext.Quote(name), question)
		}
	}
	return ""
}

// otherThanText returns the only type of a property, "" if it accepts text or has several types.
func otherThanText(schema json.RawMessage) string {
	var property struct{ Type string }
	if json.Unmarshal(schema, &property) != nil || property.Type == "string" {
		return ""
	}
	return property.Type
}
