// Client is the client that the official conformance suite
// (https://github.com/modelcontextprotocol/conformance) tests:
//
//	client URL
//
// The suite sets MCP_CONFORMANCE_SCENARIO to the scenario to execute with the server at the
// URL, and MCP_CONFORMANCE_CONTEXT to the scenario's parameters as JSON, such as a password.
// The program uses packages client, transport/streamable and transport/oauth. It chooses the
// calls and acts as the user's browser. The exit status is 1 if anything fails, which some
// scenarios expect.
package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// timeout is shorter than the timeout of the suite, which is two minutes.
const timeout = 100 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx, os.Args, os.Getenv); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "conformance client:", err)
		os.Exit(1)
	}
}

// run executes one scenario.
func run(ctx context.Context, line []string, environment func(string) string) error {
	name := environment("MCP_CONFORMANCE_SCENARIO")
	if len(line) != 2 || name == "" {
		return fmt.Errorf("expected a URL, and a scenario in MCP_CONFORMANCE_SCENARIO, got %q", line[1:])
	}
	params, err := parseParameters(environment("MCP_CONFORMANCE_CONTEXT"))
	if err != nil {
		return err
	}
	authorizer, err := newAuthorizer(name, params)
	if err != nil {
		return err
	}
	s := &scenario{params: params}
	session, err := client.Connect(ctx, streamable.Dial(line[1], &streamable.DialOptions{Authorizer: authorizer}), &client.Options{
		Info:   mcp.Implementation{Name: "dovetail-conformance", Version: "1.0.0"},
		Elicit: s.elicit, Sample: s.sample, Roots: s.roots,
		// The suite starts some forty clients at once. No server of it is silent.
		ProbeTimeout: time.Minute,
	})
	if err != nil {
		return err
	}
	defer session.Close()
	s.session = session
	return s.execute(ctx, name)
}

// parameters are the parameters of a scenario.
type parameters struct {
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

func parseParameters(text string) (*parameters, error) {
	var p parameters
	if text == "" {
		return &p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
	}
	return &p, nil
}

// metadataURL is the URL of the client's metadata document in the suite.
const metadataURL = "https://conformance-test.local/client-metadata.json"

// newAuthorizer returns the OAuth client of a scenario. Some scenarios have no user.
func newAuthorizer(scenario string, params *parameters) (*oauth.Client, error) {
	opts := &oauth.ClientOptions{
		Name: "Dovetail conformance", AllowLoopback: true,
		Flow: &oauth.CodeFlow{Open: browse},
	}
	if params.ClientID != "" {
		key, err := parseKey(params.PrivateKey)
		if err != nil {
			return nil, err
		}
		opts.Registrations = []oauth.Registration{{ClientID: params.ClientID, Secret: oauth.Secret(params.ClientSecret), Key: key}}
	}
	switch scenario {
	case "auth/basic-cimd":
		opts.MetadataURL = metadataURL
	case "auth/client-credentials-jwt", "auth/client-credentials-basic":
		opts.Flow = &oauth.ClientCredentials{}
	case "auth/wif-jwt-bearer":
		opts.Flow = &oauth.JWTBearer{Assertion: constant(params.WorkloadJWT), Trust: trustAll} // the port of the suite's issuer varies
	case "auth/enterprise-managed-authorization":
		opts.Flow = &oauth.EnterpriseManaged{
			Issuer: params.IDPIssuer, Client: oauth.Registration{ClientID: params.IDPClientID},
			Subject: func(context.Context) (oauth.Secret, error) { return oauth.Secret(params.IDPToken), nil },
		}
	}
	return oauth.NewClient(opts)
}

func constant(assertion string) func(context.Context, string) (oauth.Secret, error) {
	return func(context.Context, string) (oauth.Secret, error) { return oauth.Secret(assertion), nil }
}

func trustAll(string) bool { return true }

func parseKey(text string) (crypto.Signer, error) {
	if text == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("expected a private key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("expected a key that signs, got %T", key)
	}
	return signer, nil
}

// browse acts as the user's browser. The server agrees at once and redirects to the
// callback.
func browse(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
