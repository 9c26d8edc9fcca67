package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// discoverKeys finds out from an issuer's metadata where its keys are.
func discoverKeys(ctx context.Context, client *http.Client, issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return "", err
	}
	for _, place := range serverPlaces(u) {
		d, err := fetchDocument(ctx, client, place, true)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return "", err
		}
		return keysURL(d, issuer)
	}
	return "", &MetadataError{URL: issuer, Reason: "there is none at any of the places where it may be"}
}

func keysURL(d *document, issuer string) (string, error) {
	var named, at string
	d.get("issuer", &named)
	d.get("jwks_uri", &at)
	switch {
	case d.err != nil:
		return "", d.err
	case named != issuer:
		return "", &MetadataError{URL: d.url, Err: &IssuerError{Expected: issuer, Got: named}}
	case strings.TrimSpace(at) == "":
		return "", d.wrong("expected the member jwks_uri")
	}
	return at, nil
}
