package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxChanges is how many changes wait to be shown.
const maxChanges = 1024

// options are the session's: questions go to the person who types, changes to the
// channel.
func (c *command) options(changes chan<- []byte, p *person, stderr io.Writer) *client.Options {
	opts := &client.Options{
		Info: mcp.Implementation{Name: "inspect", Version: "1.0.0"},
		Era:  c.era, ConnectTimeout: c.timeout,
		Elicit: p.elicit, ElicitURLs: true,
		Changed: func(_ context.Context, change mcp.Change) {
			line, err := json.Marshal(describe(change))
			if err != nil {
				return
			}
			select {
			case changes <- line:
			default:
				fmt.Fprintf(stderr, "inspect: more than %d changes wait to be shown: one is dropped\n", maxChanges)
			}
		},
		Logged: func(_ context.Context, m *mcp.LoggingMessageParams) {
			if c.verbose {
				fmt.Fprintf(stderr, "log %s %s: %s\n", m.Level, m.Logger, printable(string(m.Data)))
			}
		},
	}
	if c.era == client.Modern { // there is nothing to try when the server is slow
		opts.ProbeTimeout = c.timeout
	}
	return opts
}

func describe(change mcp.Change) map[string]string {
	if change.URI != "" {
		return map[string]string{"changed": "resource", "uri": change.URI}
	}
	return map[string]string{"changed": change.Kind.String() + "s"}
}

// A person answers questions, or declines them all if nothing can be typed.
type person struct {
	typed *lines // nil: nobody is there
	out   io.Writer
	busy  sync.Mutex // one question at a time: a tool may ask several at once
}

func (p *person) elicit(ctx context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.typed == nil {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	p.busy.Lock()
	defer p.busy.Unlock()
	fmt.Fprintf(p.out, "\nThe server asks: %s\n", printable(question.Message))
	if question.Mode == mcp.ElicitURL {
		fmt.Fprintf(p.out, "It wants you to visit %s\n", printable(question.URL))
		return p.agree(ctx, nil)
	}
	form, err := mcp.ParseElicitSchema(question.RequestedSchema)
	if err != nil {
		return nil, err
	}
	for {
		content, err := p.fill(ctx, form)
		if err != nil {
			return nil, err
		}
		if err := form.Check(content); err != nil {
			fmt.Fprintf(p.out, "This does not fit: %s\n", printable(err.Error()))
			continue
		}
		return p.agree(ctx, content)
	}
}

func (p *person) agree(ctx context.Context, content json.RawMessage) (*mcp.ElicitResult, error) {
	answer, err := p.typed.ask(ctx, "Send this? [y]es, [n]o, anything else cancels: ")
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, nil
	case "n", "no":
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
}
