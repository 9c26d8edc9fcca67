package openapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// request creates the HTTP request for valid arguments. Its errors are about the arguments.
func (o *operation) request(ctx context.Context, arguments json.RawMessage) (*http.Request, error) {
	given, err := jsonscan.ReadObject(arguments)
	if err != nil {
		return nil, err
	}
	path, err := o.template.write(&given, o.separators)
	if err != nil {
		return nil, err
	}
	target := *o.base
	target.RawPath = strings.TrimSuffix(o.base.EscapedPath(), "/") + path
	if target.Path, err = url.PathUnescape(target.RawPath); err != nil {
		return nil, err
	}
	var body io.Reader
	contentType := ""
	if o.body != nil {
		content, kind, err := o.body.encode(&given)
		if err != nil {
			return nil, fmt.Errorf("the request body: %w", err)
		}
		if kind != "" {
			body, contentType = bytes.NewReader(content), kind
		}
	}
	request, err := http.NewRequestWithContext(ctx, o.method, o.base.String(), body)
	if err != nil {
		return nil, err
	}
	request.URL = &target
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("Accept", o.accept)
	if err := o.setParameters(request, &given); err != nil {
		return nil, err
	}
	if length := len(target.String()); length > maxURL {
		return nil, fmt.Errorf("the arguments result in a URL of %d bytes, expected at most %d", length, maxURL)
	}
	return request, nil
}

// setParameters sets the query, header and cookie parameters.
func (o *operation) setParameters(request *http.Request, given *jsonscan.Members) error {
	var query, cookies []string
	for _, p := range o.parameters {
		argument := given.Get(p.argument)
		if argument == nil {
			continue
		}
		var err error
		switch p.in {
		case "query":
			query, err = p.appendPairs(query, argument)
		case "cookie":
			cookies, err = p.appendPairs(cookies, argument)
		case "header":
			var text string
			if text, err = p.header(argument); err == nil {
				request.Header.Set(p.name, text)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", jsonscan.Quote(p.argument), err)
		}
	}
	request.URL.RawQuery = strings.Join(query, "&")
	for _, pair := range cookies {
		addCookie(request, pair)
	}
	return nil
}

// baseURL returns Options.BaseURL if it is set, or else the first server with an absolute URL.
// The servers of the operation take precedence over the servers of the path and of the document.
func baseURL(given string, item *openapi3.PathItem, operation *openapi3.Operation, document openapi3.Servers) (*url.URL, error) {
	if given != "" {
		return parseBase(given)
	}
	servers := document
	if len(item.Servers) > 0 {
		servers = item.Servers
	}
	if operation.Servers != nil && len(*operation.Servers) > 0 {
		servers = *operation.Servers
	}
	for _, server := range servers {
		if server == nil {
			continue
		}
		text := server.URL
		for name, variable := range server.Variables {
			if variable != nil {
				text = strings.ReplaceAll(text, "{"+name+"}", variable.Default)
			}
		}
		if base, err := url.Parse(text); err == nil && base.IsAbs() {
			return parseBase(text)
		}
	}
	return nil, errors.New("the document has no server with an absolute URL: set Options.BaseURL")
}

// parseBase parses a base URL. Its errors do not quote the URL, which may contain a password.
func parseBase(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the base URL is invalid")
	}
	switch {
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("the base URL has the scheme %.40q, expected an absolute http or https URL", base.Scheme)
	case base.User != nil:
		return nil, errors.New("the base URL contains credentials: use Options.Authorize")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("the base URL has a query or a fragment, expected none")
	}
	if hasDotSegment(base.EscapedPath()) {
		return nil, errors.New("the path of the base URL has a dot segment (. or ..)")
	}
	return base, nil
}

// errOtherOrigin prevents that a redirect sends a request and its credentials to another origin.
var errOtherOrigin = errors.New("the service redirected to another origin, which is not followed")

var errTooManyRedirects = errors.New("the service redirected too often")

// newClient returns a copy of a client that follows redirects only to the same origin.
func newClient(given *http.Client) *http.Client {
	client := *cmp.Or(given, httptransport.NewClient(func(settings *http.Transport) {
		settings.DisableCompression = false // Options.MaxResponse bounds a response after decompression
	}))
	next := client.CheckRedirect
	client.CheckRedirect = func(request *http.Request, via []*http.Request) error {
		if !httpclient.SameOrigin(request.URL, via[0].URL) {
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
