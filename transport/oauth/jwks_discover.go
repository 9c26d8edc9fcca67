package oauth

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

// discoverKeys finds out from an issuer's metadata where its keys are.
func discoverKeys(ctx context.Context, guard *netguard.Guard, issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return "", err
	}
	var last error
	for _, place := range serverPlaces(u) {
		body, _, err := guard.Get(ctx, place, maxDocument)
		if _, absent := errors.AsType[*netguard.StatusError](err); absent {
			last = err
			continue
		}
		if err != nil {
			return "", err
		}
		return keysURL(place, body, issuer)
	}
	return "", &MetadataError{URL: issuer, Reason: "there is none at any of the places where it may be", Err: last}
}

func keysURL(place string, body []byte, issuer string) (string, error) {
	d := &document{url: place}
	if err := d.read(body); err != nil {
		return "", err
	}
	var named, at string
	d.get("issuer", &named)
	d.get("jwks_uri", &at)
	switch {
	case d.err != nil:
		return "", d.err
	case named != issuer:
		return "", &MetadataError{URL: place, Err: &IssuerError{Expected: issuer, Got: named}}
	case strings.TrimSpace(at) == "":
		return "", d.wrong("expected the member jwks_uri")
	}
	return at, nil
}
