package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

// options are the session's: questions go to the person at the terminal, changes
// to the channel.
func (c *command) options(changes chan<- []byte, stderr io.Writer) *client.Options {
	p := &person{out: stderr}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		p.in = bufio.NewReader(os.Stdin)
	}
	return &client.Options{
		Info: mcp.Implementation{Name: "inspect", Version: "1.0.0"},
		Era:  c.era, ConnectTimeout: c.timeout,
		Elicit: p.elicit, ElicitURLs: true,
		Changed: func(ctx context.Context, change mcp.Change) {
			line, err := json.Marshal(describe(change))
			if err != nil {
				return
			}
			select {
			case changes <- line:
			case <-ctx.Done():
			}
		},
		Logged: func(_ context.Context, m *mcp.LoggingMessageParams) {
			if c.verbose {
				fmt.Fprintf(stderr, "log %s %s: %s\n", m.Level, m.Logger, printable(string(m.Data)))
			}
		},
	}
}

func describe(change mcp.Change) map[string]string {
	switch change.Kind {
	case mcp.ToolsChanged:
		return map[string]string{"changed": "tools"}
	case mcp.PromptsChanged:
		return map[string]string{"changed": "prompts"}
	case mcp.ResourcesChanged:
		return map[string]string{"changed": "resources"}
	}
	return map[string]string{"changed": "resource", "uri": change.URI}
}

// A person answers questions on the terminal, and declines where there is none.
type person struct {
	in  *bufio.Reader // nil: nobody is there
	out io.Writer
}

func (p *person) elicit(_ context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.in == nil {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	fmt.Fprintf(p.out, "\nThe server asks: %s\n", printable(question.Message))
	if question.Mode == mcp.ElicitURL {
		fmt.Fprintf(p.out, "It wants you to visit %s\n", printable(question.URL))
		return p.agree(nil)
	}
	form, err := mcp.ParseElicitSchema(question.RequestedSchema)
	if err != nil {
		return nil, err
	}
	for {
		content, err := p.fill(form)
		if err != nil {
			return nil, err
		}
		if err := form.Check(content); err != nil {
			fmt.Fprintf(p.out, "This does not fit: %s\n", printable(err.Error()))
			continue
		}
		return p.agree(content)
	}
}

func (p *person) agree(content json.RawMessage) (*mcp.ElicitResult, error) {
	answer, err := p.ask("Send this? [y]es, [n]o, anything else cancels: ")
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

func (p *person) ask(prompt string) (string, error) {
	fmt.Fprint(p.out, prompt)
	line, err := p.in.ReadString('\n')
	return strings.TrimSpace(line), err
}
