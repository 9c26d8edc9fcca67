package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// metadataURL is where the suite has the client's document lie.
const metadataURL = "https://conformance-test.local/client-metadata.json"

// newAuthorizer returns the client of a scenario, which differs where there is no person.
func newAuthorizer(scenario string, given *given) (*oauth.Client, error) {
	opts := &oauth.ClientOptions{
		Name: "Dovetail conformance", AllowLoopback: true,
		Flow: &oauth.CodeFlow{Open: browse},
	}
	if given.ClientID != "" {
		key, err := parseKey(given.PrivateKey)
		if err != nil {
			return nil, err
		}
		opts.Registrations = []oauth.Registration{{ClientID: given.ClientID, Secret: oauth.Secret(given.ClientSecret), Key: key}}
	}
	switch scenario {
	case "auth/basic-cimd":
		opts.MetadataURL = metadataURL
	case "auth/client-credentials-jwt", "auth/client-credentials-basic":
		opts.Flow = &oauth.ClientCredentials{}
	case "auth/wif-jwt-bearer":
		opts.Flow = &oauth.JWTBearer{Assertion: always(given.WorkloadJWT), Trust: anybody} // the suite's issuer has a port of its own each time
	case "auth/enterprise-managed-authorization":
		opts.Flow = &oauth.EnterpriseManaged{
			Issuer: given.IDPIssuer, Client: oauth.Registration{ClientID: given.IDPClientID},
			Subject: func(context.Context) (oauth.Secret, error) { return oauth.Secret(given.IDPToken), nil },
		}
	}
	return oauth.NewClient(opts)
}

func always(assertion string) func(context.Context, string) (oauth.Secret, error) {
	return func(context.Context, string) (oauth.Secret, error) { return oauth.Secret(assertion), nil }
}

func anybody(string) bool { return true }

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

// browse is the person with a browser, who agrees at once: the server redirects to the
// receiver.
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
