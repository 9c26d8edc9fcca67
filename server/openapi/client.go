package openapi

import (
	"errors"
	"net/http"
)

// errOtherOrigin refuses a redirect that would take a request, and what authorizes it,
// to somebody else.
var errOtherOrigin = errors.New("the service redirected to another origin, which is not followed")

var errTooManyRedirects = errors.New("the service redirected too often")

// newClient is a copy of the client that was given, and stays with one origin.
func newClient(given *http.Client) *http.Client {
	client := http.Client{}
	if given != nil {
		client = *given
	}
	next := client.CheckRedirect
	client.CheckRedirect = func(request *http.Request, via []*http.Request) error {
		if !sameOrigin(request.URL, via[0].URL) {
			return errOtherOrigin
		}
		if len(via) >= maxRedirects {
			return errTooManyRedirects
		}
		if next != nil {
			return next(request, via)
		}
		return nil
	}
	return &client
}
