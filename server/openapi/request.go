package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// request writes arguments, valid by the operation's schema, as a request. Its errors
// are for who gave the arguments.
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
		return nil, fmt.Errorf("the arguments make a URL of %d bytes, expected at most %d", length, maxURL)
	}
	return request, nil
}

// setParameters writes the parameters that do not stand in the path.
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
