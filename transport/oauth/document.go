package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/webclient"
)

// newHTTPClient returns what fetches. Metadata that lies elsewhere than where it was
// looked for speaks for somebody else.
func newHTTPClient(guard *netguard.Guard) *http.Client {
	client := guard.Client()
	inner := client.CheckRedirect
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !webclient.SameOrigin(req.URL, via[0].URL) {
			return &URLError{URL: shown(req.URL), Reason: "the redirect leads to another origin"}
		}
		return inner(req, via)
	}
	return client
}

// A reply is an answer that has been read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send makes a request, and reads the answer. Errors do not tell the URL's query.
func send(client *http.Client, req *http.Request) (reply, error) {
	res, err := client.Do(req)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err
		}
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, body}, err
}

// errAbsent is that a place holds no document.
var errAbsent = errors.New("there is none")

// fetchDocument fetches a metadata document. At a place that was guessed, errAbsent is that
// there is none: a refusal, or a page for people.
func fetchDocument(ctx context.Context, client *http.Client, at string, guessed bool) (*document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, &MetadataError{Reason: "expected a URL"}
	}
	req.Header.Set("Accept", "application/json")
	d := &document{url: shown(req.URL)}
	res, err := send(client, req)
	if err != nil {
		return nil, d.failed(err)
	}
	kind, _, _ := mime.ParseMediaType(res.header.Get("Content-Type"))
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	switch {
	case guessed && (isAbsent(res.status) || res.status/100 == 2 && !isJSON):
		return nil, errAbsent
	case res.status != http.StatusOK:
		return nil, d.wrong("expected status 200, got " + http.StatusText(res.status))
	}
	if err := d.read(res.body); err != nil {
		return nil, err
	}
	return d, nil
}

// isAbsent tells the statuses by which servers say that there is nothing at a place. Others
// may pass, and what is not there for a moment must not be guessed at.
func isAbsent(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// A document is an object of JSON.
type document struct {
	url     string // without query
	members jsonscan.Members
	err     error // the first member that was not as expected
}

func (d *document) read(body []byte) (err error) {
	if d.members, err = jsonscan.ReadObject(body); err != nil {
		return d.failed(err)
	}
	return nil
}

// failed is the error of a document that did not come.
func (d *document) failed(err error) error { return &MetadataError{URL: d.url, Err: err} }

// wrong is the error of a document that is not as it should be.
func (d *document) wrong(reason string) error { return &MetadataError{URL: d.url, Reason: reason} }

// get decodes a member, if there is one. An explicit null is none.
func (d *document) get(name string, into any) {
	raw := d.members.Get(name)
	if raw == nil || bytes.Equal(raw, []byte("null")) || d.err != nil {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil {
		d.err = d.wrong("the member " + name + " is of another type than expected")
	}
}

// wellKnown is a URL with a well-known path put before its own. RFC 8414, section 3.1,
// and RFC 9728, section 3.1.
func wellKnown(u *url.URL, name string) string {
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	return u.Scheme + "://" + u.Host + "/.well-known/" + name + path
}
