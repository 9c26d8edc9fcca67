package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type promptIn struct {
	Prompt string `json:"prompt" jsonschema_description:"The prompt to send to the LLM"`
}

type messageIn struct {
	Message string `json:"message" jsonschema_description:"The message to show the user"`
}

type contact struct {
	Username string `json:"username" jsonschema_description:"User's response"`
	Email    string `json:"email" jsonschema_description:"User's email address"`
}

type confirmation struct {
	OK bool `json:"ok"`
}

// addQuestions adds tools that ask the client in the middle of a call: its
// model, and the person behind it.
func addQuestions(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "test_sampling", Description: "Asks the client's model."},
		func(_ context.Context, r *server.Request, in promptIn) (string, error) {
			answer, err := server.Sample(r, "sample", oneQuestion(in.Prompt, 100))
			if err != nil {
				return "", err
			}
			return "LLM response: " + textOf(answer.Content), nil
		})
	server.AddTool(s, server.Tool{Name: "test_missing_capability", Description: "Needs a client with a model."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			_, err := server.Sample(r, "sample", oneQuestion("Say anything.", 10))
			return "Success", err
		})
	server.AddTool(s, server.Tool{Name: "test_elicitation", Description: "Asks the user for a name and an address."},
		func(_ context.Context, r *server.Request, in messageIn) (string, error) {
			said, err := outcome(server.Elicit[contact](r, "contact", in.Message))
			return "User response: " + said, err
		})
	server.AddTool(s, server.Tool{Name: "test_url_elicitation", Description: "Sends the user to a web page."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			err := server.ElicitURL(r, "sign_in", "Please sign in", "https://example.com/sign-in")
			return "The user has agreed to go there", err
		})
	server.AddTool(s, server.Tool{Name: "test_streaming_elicitation", Description: "Reports progress and then asks."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			if err := r.Progress(ctx, 50, 100, ""); err != nil {
				return "", err
			}
			_, err := server.Elicit[confirmation](r, "confirm", "Please confirm")
			return "Streaming complete", err
		})
	addTicket(s)
}

// addTicket adds a tool that does something before it asks, and does it once
// though its function runs again after each answer.
func addTicket(s *server.Server) {
	var tickets atomic.Int64
	server.AddTool(s, server.Tool{Name: "test_once", Description: "Draws a ticket, then asks whether to keep it."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			ticket, err := server.Once(r, "ticket", func() (int64, error) { return tickets.Add(1), nil })
			if err != nil {
				return "", err
			}
			answer, err := server.Elicit[confirmation](r, "keep", fmt.Sprintf("Keep ticket %d?", ticket))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("Ticket %d kept: %t", ticket, answer.OK), nil
		})
}

// oneQuestion asks a model one thing.
func oneQuestion(text string, maxTokens int) *mcp.CreateMessageParams {
	message := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text(text)}}
	return &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{message}, MaxTokens: maxTokens}
}

// textOf is the text of an answer that begins with one.
func textOf(content []mcp.Content) string {
	if len(content) > 0 {
		if text, ok := content[0].(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return "no text"
}
