package features

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// addQuestions adds tools that ask the client's model or user during a call.
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

// addTicket adds a tool with a side effect before a question. The side effect happens once,
// although the function runs again after the answer.
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

// oneQuestion returns the params of a sampling request with one message.
func oneQuestion(text string, maxTokens int) *mcp.CreateMessageParams {
	message := mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text(text)}}
	return &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{message}, MaxTokens: maxTokens}
}

// textOf returns the text of the first content.
func textOf(content []mcp.Content) string {
	if len(content) > 0 {
		if text, ok := content[0].(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return "no text"
}

// profile is a form with default values. Pointers make fields optional.
type profile struct {
	Name     *string  `json:"name" jsonschema:"default=John Doe" jsonschema_description:"User name"`
	Age      *int     `json:"age" jsonschema:"default=30" jsonschema_description:"User age"`
	Score    *float64 `json:"score" jsonschema:"default=95.5" jsonschema_description:"User score"`
	Status   *string  `json:"status" jsonschema:"enum=active,enum=inactive,enum=pending,default=active" jsonschema_description:"User status"`
	Verified *bool    `json:"verified" jsonschema:"default=true" jsonschema_description:"Verification status"`
}

// addForms adds tools with forms that have every kind of field.
func addForms(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "test_elicitation_sep1034_defaults", Description: "Shows a form that is filled in beforehand."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			said, err := outcome(server.Elicit[profile](r, "profile", "Please review and update the form fields with defaults"))
			return "Elicitation completed: " + said, err
		})
	server.AddTool(s, server.Tool{Name: "test_elicitation_sep1330_enums", Description: "Shows a form with every kind of choice."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			said, err := outcome(server.ElicitForm(r, "choices", "Please select options from the enum fields", choices()))
			return "Elicitation completed: " + said, err
		})
}

// choices returns a form with titled options, which a Go type cannot describe.
func choices() *mcp.ElicitSchema {
	plain := []mcp.EnumOption{{Value: "option1"}, {Value: "option2"}, {Value: "option3"}}
	return &mcp.ElicitSchema{Fields: []mcp.ElicitField{
		{Name: "untitledSingle", Schema: &mcp.EnumSchema{Description: "Select one option", Options: plain}},
		{Name: "titledSingle", Schema: &mcp.EnumSchema{
			Description: "Select one option with titles", Options: titled("First Option", "Second Option", "Third Option"),
		}},
		{Name: "legacyEnum", Schema: &mcp.EnumSchema{
			Description: "Select one option (legacy)", EnumNames: true,
			Options: []mcp.EnumOption{{Value: "opt1", Title: "Option One"}, {Value: "opt2", Title: "Option Two"}, {Value: "opt3", Title: "Option Three"}},
		}},
		{Name: "untitledMulti", Schema: &mcp.EnumSchema{
			Description: "Select multiple options", Multiple: true, MinItems: new(1), MaxItems: new(3), Options: plain,
		}},
		{Name: "titledMulti", Schema: &mcp.EnumSchema{
			Description: "Select multiple options with titles", Multiple: true, MinItems: new(1), MaxItems: new(3),
			Options: titled("First Choice", "Second Choice", "Third Choice"),
		}},
	}}
}

func titled(titles ...string) []mcp.EnumOption {
	options := make([]mcp.EnumOption, len(titles))
	for i, title := range titles {
		options[i] = mcp.EnumOption{Value: fmt.Sprintf("value%d", i+1), Title: title}
	}
	return options
}

// outcome describes the user's answer. It returns errors other than a refusal unchanged.
func outcome[T any](content T, err error) (string, error) {
	if declined, ok := errors.AsType[*server.DeclinedError](err); ok {
		return fmt.Sprintf("action=%s, content={}", declined.Action), nil
	}
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(content)
	return fmt.Sprintf("action=accept, content=%s", encoded), err
}

type personName struct {
	Name string `json:"name"`
}

type color struct {
	Color string `json:"color"`
}

// addRounds adds tools that clients of 2026-07-28 call in several rounds. Older clients get the
// questions as requests during the call.
func addRounds(s *server.Server) {
	const prefix = "test_input_required_result_"
	server.AddTool(s, server.Tool{Name: prefix + "elicitation", Description: "Asks the user."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			user, err := server.Elicit[personName](r, "user_name", "What is your name?")
			return "Hello, " + user.Name + "!", err
		})
	server.AddTool(s, server.Tool{Name: prefix + "sampling", Description: "Asks the client's model."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			answer, err := server.Sample(r, "capital_question", oneQuestion("What is the capital of France?", 100))
			if err != nil {
				return "", err
			}
			return "Sampling result: " + textOf(answer.Content), nil
		})
	server.AddTool(s, server.Tool{Name: prefix + "list_roots", Description: "Asks for the client's roots."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			roots, err := server.Roots(r, "client_roots")
			return found(roots), err
		})
	server.AddTool(s, server.Tool{Name: prefix + "request_state", Description: "Asks, and takes its own state back."},
		confirmed("state-ok: validated"))
	server.AddTool(s, server.Tool{Name: prefix + "tampered_state", Description: "Asks, and refuses a state that is not its own."},
		confirmed("integrity-ok: state verified"))
	server.AddTool(s, server.Tool{Name: prefix + "multi_round", Description: "Asks the user twice."}, askTwice)
	server.AddTool(s, server.Tool{Name: prefix + "multiple_inputs", Description: "Asks for three things at once."}, askTogether)
	server.AddTool(s, server.Tool{Name: prefix + "capabilities", Description: "Asks only what the client can answer."}, askSupported)
}

// confirmed returns a function that returns done after the user's confirmation.
func confirmed(done string) func(context.Context, *server.Request, struct{}) (string, error) {
	return func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		_, err := server.Elicit[confirmation](r, "confirm", "Please confirm")
		return done, err
	}
}

// askTwice asks two questions in sequence.
func askTwice(_ context.Context, r *server.Request, _ struct{}) (string, error) {
	user, err := server.Elicit[personName](r, "step1", "Step 1: What is your name?")
	if err != nil {
		return "", err
	}
	favorite, err := server.Elicit[color](r, "step2", "Step 2: What is your favorite color?")
	return fmt.Sprintf("Multi-round complete for %s who likes %s", user.Name, favorite.Color), err
}

// askTogether asks three questions in one round.
func askTogether(_ context.Context, r *server.Request, _ struct{}) (string, error) {
	user, nameErr := server.Elicit[personName](r, "user_name", "What is your name?")
	greeting, greetingErr := server.Sample(r, "greeting", oneQuestion("Generate a greeting", 50))
	roots, rootsErr := server.Roots(r, "client_roots")
	if err := errors.Join(nameErr, greetingErr, rootsErr); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s. %s", user.Name, textOf(greeting.Content), found(roots)), nil
}

// askSupported asks only the questions that the client supports.
func askSupported(_ context.Context, r *server.Request, _ struct{}) (string, error) {
	var asked []string
	var errs []error
	can := r.Caller().Capabilities
	if can.Elicitation != nil {
		_, err := server.Elicit[personName](r, "elicit_input", "What is your name?")
		asked, errs = append(asked, "elicit_input"), append(errs, err)
	}
	if can.Sampling != nil {
		_, err := server.Sample(r, "sample_input", oneQuestion("Sample request", 50))
		asked, errs = append(asked, "sample_input"), append(errs, err)
	}
	if len(asked) == 0 {
		return "No supported capabilities declared", nil
	}
	return "capabilities-ok: received " + strings.Join(asked, ","), errors.Join(errs...)
}

func found(roots []mcp.Root) string {
	uris := make([]string, len(roots))
	for i, root := range roots {
		uris[i] = root.URI
	}
	return fmt.Sprintf("Found %d root(s): %s", len(roots), strings.Join(uris, " "))
}
