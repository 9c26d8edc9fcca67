package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
)

// printText prints a result for people.
func (i *inspection) printText(method string, result json.RawMessage) error {
	switch method {
	case mcp.MethodToolsCall:
		var answer mcp.CallToolResult
		if json.Unmarshal(result, &answer) != nil {
			return i.print(result)
		}
		if answer.IsError {
			fmt.Fprintln(i.out, "The tool failed:")
		}
		if len(answer.Content) == 0 && answer.StructuredContent != nil {
			return i.print(answer.StructuredContent)
		}
		return i.printContent(answer.Content)
	case mcp.MethodResourcesRead:
		var answer struct {
			Contents []struct {
				URI, MIMEType, Text, Blob string
			} `json:"contents"`
		}
		if json.Unmarshal(result, &answer) != nil {
			return i.print(result)
		}
		for _, c := range answer.Contents {
			if c.Blob != "" {
				fmt.Fprintf(i.out, "[%s, %d bytes of base64]\n", c.MIMEType, len(c.Blob))
				continue
			}
			fmt.Fprintln(i.out, strings.TrimSuffix(c.Text, "\n"))
		}
		return nil
	case mcp.MethodPromptsGet:
		var answer mcp.GetPromptResult
		if json.Unmarshal(result, &answer) != nil {
			return i.print(result)
		}
		for _, m := range answer.Messages {
			fmt.Fprintf(i.out, "%s:\n", m.Role)
			if err := i.printContent(mcp.ContentList{m.Content}); err != nil {
				return err
			}
		}
		return nil
	}
	return i.print(result)
}

// printContent prints texts, and other content as JSON on one line.
func (i *inspection) printContent(list mcp.ContentList) error {
	for _, content := range list {
		if text, ok := content.(*mcp.TextContent); ok {
			fmt.Fprintln(i.out, strings.TrimSuffix(text.Text, "\n"))
			continue
		}
		encoded, err := json.Marshal(content)
		if err != nil {
			return err
		}
		fmt.Fprintln(i.out, peertext.Cut(string(encoded), maxText))
	}
	return nil
}

// printList prints the entries of a list, each with the first line of its description.
func (i *inspection) printList(list json.RawMessage) error {
	var entries []listed
	if err := json.Unmarshal(list, &entries); err != nil {
		return err
	}
	for _, e := range entries {
		name := e.key()
		if arguments := e.argumentNames(); len(arguments) > 0 {
			for n, argument := range arguments {
				if !e.requires(argument) {
					arguments[n] += "?"
				}
			}
			name += "(" + strings.Join(arguments, ", ") + ")"
		}
		fmt.Fprintln(i.out, peertext.Escape(name))
		description, _, _ := strings.Cut(strings.TrimSpace(e.Description), "\n")
		if description == "" {
			description = e.Title
		}
		if description != "" {
			fmt.Fprintln(i.out, "    "+peertext.Escape(peertext.Cut(description, 400)))
		}
	}
	if len(entries) == 0 {
		fmt.Fprintln(i.out, "The list is empty.")
	}
	return nil
}

// printInfo prints a server's description of itself.
func (i *inspection) printInfo() error {
	server := i.session.Server()
	fmt.Fprintf(i.out, "%s %s\nprotocol %s (%s)\n", peertext.Escape(server.Name), peertext.Escape(server.Version), i.session.Version(), i.session.Era())
	capabilities, err := json.Marshal(i.session.Capabilities())
	if err != nil {
		return err
	}
	fmt.Fprintf(i.out, "capabilities %s\n", capabilities)
	if text := i.session.Instructions(); text != "" {
		fmt.Fprintf(i.out, "instructions:\n%s\n", peertext.Cut(text, maxText))
	}
	if i.servers != nil {
		for _, s := range i.servers.states() {
			fmt.Fprintf(i.out, "%-20s %-8s %s, %s, %s %s\n", s.Alias, s.Status, count(s.Tools, "tool"), count(s.Prompts, "prompt"), count(s.Resources, "resource"), s.Error)
		}
	}
	return nil
}

// count returns a number of things.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
