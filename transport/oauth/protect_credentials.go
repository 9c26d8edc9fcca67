package oauth

import (
	"errors"
	"net/http"
	"strings"
)

// credentials are what a request shows.
type credentials struct {
	token Secret
	dpop  bool // the scheme is DPoP: there is a proof
}

var (
	errNoToken       = errors.New("a token is needed, in the header Authorization")
	errManyTokens    = errors.New("the header Authorization is given more than once")
	errUnknownScheme = errors.New("expected the scheme Bearer or DPoP in the header Authorization")
	errTokenSyntax   = errors.New("expected one token in the header Authorization, of the characters that RFC 6750, section 2.1, has")
	errTokenLength   = errors.New("the token is too long")
)

// credentialsOf reads a header. RFC 6750, section 2.1; RFC 9449, section 7.1.
func credentialsOf(header http.Header) (credentials, error) {
	lines := header["Authorization"]
	switch {
	case len(lines) == 0:
		return credentials{}, &refusal{status: http.StatusUnauthorized, err: errNoToken}
	case len(lines) > 1:
		return credentials{}, malformed(errManyTokens)
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	c := credentials{dpop: strings.EqualFold(scheme, "DPoP")}
	if !c.dpop && !strings.EqualFold(scheme, "Bearer") {
		return credentials{}, &refusal{status: http.StatusUnauthorized, err: errUnknownScheme}
	}
	token = strings.TrimLeft(token, " ")
	switch {
	case len(token) > MaxBearerToken:
		return credentials{}, malformed(errTokenLength)
	case !isToken68(token):
		return credentials{}, malformed(errTokenSyntax)
	}
	c.token = Secret(token)
	return c, nil
}

func malformed(err error) error {
	return &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, err: err}
}

// isToken68 tells what can be a token. RFC 9110, section 11.2.
func isToken68(text string) bool {
	text = strings.TrimRight(text, "=")
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && strings.IndexByte("-._~+/", text[i]) < 0 {
			return false
		}
	}
	return text != ""
}
