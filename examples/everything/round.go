package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type personName struct {
	Name string `json:"name"`
}

type color struct {
	Color string `json:"color"`
}

// addRounds adds tools that clients of 2026-07-28 call in several rounds, and
// older ones answer in between.
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
	server.AddTool(s, server.Tool{Name: prefix + "multiple_inputs", Description: "Asks for three things at once."}, askAtOnce)
	server.AddTool(s, server.Tool{Name: prefix + "capabilities", Description: "Asks only what the client can answer."}, askAble)
}

// confirmed says something once the user has confirmed.
func confirmed(done string) func(context.Context, *server.Request, struct{}) (string, error) {
	return func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		_, err := server.Elicit[confirmation](r, "confirm", "Please confirm")
		return done, err
	}
}

// askTwice asks one thing after the other.
func askTwice(_ context.Context, r *server.Request, _ struct{}) (string, error) {
	user, err := server.Elicit[personName](r, "step1", "Step 1: What is your name?")
	if err != nil {
		return "", err
	}
	favorite, err := server.Elicit[color](r, "step2", "Step 2: What is your favorite color?")
	return fmt.Sprintf("Multi-round complete for %s who likes %s", user.Name, favorite.Color), err
}

// askAtOnce asks three things in one round.
func askAtOnce(_ context.Context, r *server.Request, _ struct{}) (string, error) {
	user, nameErr := server.Elicit[personName](r, "user_name", "What is your name?")
	greeting, greetingErr := server.Sample(r, "greeting", oneQuestion("Generate a greeting", 50))
	roots, rootsErr := server.Roots(r, "client_roots")
	if err := errors.Join(nameErr, greetingErr, rootsErr); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s. %s", user.Name, textOf(greeting.Content), found(roots)), nil
}

// askAble leaves out the questions that the caller has not declared.
func askAble(_ context.Context, r *server.Request, _ struct{}) (string, error) {
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
