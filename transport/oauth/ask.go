package oauth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/dovetail-go/dovetail/internal/webclient"
)

// An ask is what is asked for, and of whom.
type ask struct {
	client   *Client
	server   *serverMetadata
	resource string
	scopes   []string
	key      *proofKey // nil: the token need not be bound to one
	redirect string    // where the browser brought the last answer; a flow changes it

	clientID string // by which the token was asked for
}

// params are what every request of a token has, with a grant's own.
func (a *ask) params(own url.Values) url.Values {
	if a.resource != "" {
		own.Set("resource", a.resource) // RFC 8707
	}
	if len(a.scopes) > 0 {
		own.Set("scope", strings.Join(a.scopes, " "))
	}
	return own
}

// request asks the token endpoint, and asks it again if it wants a nonce.
func (a *ask) request(ctx context.Context, by *Registration, params url.Values) (*oauth2.Token, error) {
	return a.requestAt(ctx, a.server, by, a.key, a.params(params))
}

// requestAt asks the token endpoint of any server.
func (a *ask) requestAt(ctx context.Context, at *serverMetadata, by *Registration, key *proofKey, params url.Values) (*oauth2.Token, error) {
	a.clientID = by.ClientID
	if by.Issuer != "" && by.Issuer != at.issuer {
		return nil, &IssuerError{Expected: by.Issuer, Got: at.issuer}
	}
	config := &clientcredentials.Config{ClientID: by.ClientID, TokenURL: at.tokenEndpoint, EndpointParams: params, AuthStyle: oauth2.AuthStyleInParams}
	method, err := by.method(at.authMethods)
	if err != nil {
		return nil, err
	}
	switch method {
	case MethodBasic:
		config.AuthStyle, config.ClientSecret = oauth2.AuthStyleInHeader, string(by.Secret)
	case MethodPost:
		config.ClientSecret = string(by.Secret)
	}
	for range 2 {
		if method == MethodPrivateKeyJWT {
			if err := by.assert(params, at, a.client.options.Clock()); err != nil {
				return nil, err
			}
		}
		asked := &asking{client: a.client, key: key}
		ctx := context.WithValue(ctx, oauth2.HTTPClient, asked.httpClient())
		var token *oauth2.Token
		if token, err = config.Token(ctx); err == nil {
			return token, nil
		}
		err = explain(err, at, params, by)
		if !isCode(err, "use_dpop_nonce") || !asked.newNonce { // RFC 9449, section 8
			break
		}
	}
	return nil, err
}

// explain is what an error of a token endpoint says, without the secrets that were sent
// there and may have come back.
func explain(err error, at *serverMetadata, params url.Values, by *Registration) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			return outer.Err
		}
		return &AnswerError{Issuer: at.issuer, Err: errors.New("the answer is not as RFC 6749, section 5, has it")}
	}
	code := refused.ErrorCode
	if code == "" {
		code = "status " + http.StatusText(refused.Response.StatusCode)
	}
	hide := func(text string) string {
		for _, name := range []string{"code", "code_verifier", "refresh_token", "assertion", "subject_token", "client_assertion"} {
			text = withoutSecret(text, params.Get(name))
		}
		text = withoutSecret(text, base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(by.ClientID)+":"+url.QueryEscape(string(by.Secret)))))
		return excerpt(withoutSecret(text, string(by.Secret)))
	}
	return &Error{Code: hide(code), Description: hide(refused.ErrorDescription), Status: refused.Response.StatusCode}
}

func withoutSecret(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.NewReplacer(secret, redacted, url.QueryEscape(secret), redacted).Replace(text)
}

// asking makes one request of a token, with a proof if there is a key.
type asking struct {
	client   *Client
	key      *proofKey
	newNonce bool
}

func (a *asking) httpClient() *http.Client {
	client := *a.client.http
	client.Transport = &proving{a, client.Transport}
	client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		// The path may repeat what was sent.
		return &URLError{URL: req.URL.Scheme + "://" + req.URL.Host, Reason: "the token endpoint redirects there, and secrets do not go elsewhere"}
	}
	return &client
}

type proving struct {
	*asking
	next http.RoundTripper
}

// RoundTrip makes the request, and remembers the nonce for the next. It reads the whole
// answer: one that is cut off is a failure of the network, and not of who answers.
func (p *proving) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", "application/json")
	origin := webclient.Origin(req.URL)
	if p.key != nil {
		proof, err := p.key.prove(p.client.options.Clock(), req.Method, req.URL, p.client.nonce(origin), "")
		if err != nil {
			return nil, err
		}
		req.Header.Set("DPoP", proof)
	}
	res, err := p.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if p.key != nil {
		if nonce := nonceOf(res.Header); nonce != "" {
			p.client.keepNonce(origin, nonce)
			p.newNonce = true
		}
	}
	return res, nil
}

func (c *Client) nonce(origin string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nonces[origin]
}

func (c *Client) keepNonce(origin, nonce string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.nonces) >= maxServers {
		clear(c.nonces)
	}
	c.nonces[origin] = nonce
}
