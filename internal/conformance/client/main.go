// Client is what the official conformance suite
// (https://github.com/modelcontextprotocol/conformance) tests as a client:
//
//	client URL
//
// The suite says in MCP_CONFORMANCE_SCENARIO which of its scenarios plays at the URL, and
// in MCP_CONFORMANCE_CONTEXT, as JSON, what the scenario wants known, such as a
// password. All of it is done with packages client, transport/streamable and
// transport/oauth; this program only says what to call, and plays the person with a
// browser. The exit status is 1 when anything fails, which some scenarios want to see.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// patience is less than that of the suite, which gives 30 s.
const patience = 25 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, os.Args, os.Getenv); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "conformance client:", err)
		os.Exit(1)
	}
}

// run plays one scenario.
func run(ctx context.Context, line []string, environment func(string) string) error {
	name := environment("MCP_CONFORMANCE_SCENARIO")
	if len(line) != 2 || name == "" {
		return fmt.Errorf("expected a URL, and a scenario in MCP_CONFORMANCE_SCENARIO, got %q", line[1:])
	}
	given, err := parseGiven(environment("MCP_CONFORMANCE_CONTEXT"))
	if err != nil {
		return err
	}
	authorizer, err := newAuthorizer(name, given)
	if err != nil {
		return err
	}
	part := &part{given: given}
	session, err := client.Connect(ctx, streamable.Dial(line[1], &streamable.DialOptions{Authorizer: authorizer}), &client.Options{
		Info:   mcp.Implementation{Name: "dovetail-conformance", Version: "1.0.0"},
		Elicit: part.elicit, Sample: part.sample, Roots: part.roots,
	})
	if err != nil {
		return err
	}
	defer session.Close()
	part.session = session
	return part.play(ctx, name)
}

// What a scenario wants known.
type given struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	PrivateKey   string `json:"private_key_pem"`
	WorkloadJWT  string `json:"valid_jwt"`
	IDPClientID  string `json:"idp_client_id"`
	IDPToken     string `json:"idp_id_token"`
	IDPIssuer    string `json:"idp_issuer"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

func parseGiven(text string) (*given, error) {
	var g given
	if text == "" {
		return &g, nil
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return nil, fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
	}
	return &g, nil
}
