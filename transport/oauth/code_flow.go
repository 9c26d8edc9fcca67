package oauth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/url"
	"time"

	"golang.org/x/oauth2"
)

// A CodeFlow has a person log in with a browser: the authorization code grant of OAuth
// 2.1 with PKCE. It needs no registration where servers have Client ID Metadata Documents
// or dynamic registration. The zero value is good.
type CodeFlow struct {
	// Receiver takes the answer. Default a [*LoopbackReceiver].
	Receiver Receiver
	// Open sends the person's browser to a URL, which is https, or http at this machine
	// where [ClientOptions].AllowLoopback says so. It should not wait for the person.
	// Default [OpenBrowser].
	Open func(ctx context.Context, url string) error
	// Timeout is how long the person may take. Default [DefaultLoginTimeout].
	Timeout time.Duration
}

func (f *CodeFlow) check(*ClientOptions) error { return nil }

func (f *CodeFlow) token(ctx context.Context, a *ask) (*oauth2.Token, error) {
	token, err := f.attempt(ctx, a)
	if !isCode(err, "invalid_client") && !isCode(err, "unauthorized_client") {
		return token, err
	}
	saved, stored := a.registered(ctx)
	if saved == nil || stored != nil || saved.ClientID != a.clientID {
		return nil, err
	}
	if stored := a.keepRegistered(ctx, nil); stored != nil { // the server has forgotten it
		return nil, stored
	}
	return f.attempt(ctx, a)
}

// attempt has the person log in.
func (f *CodeFlow) attempt(ctx context.Context, a *ask) (*oauth2.Token, error) {
	if err := a.server.checkChallenges(); err != nil {
		return nil, err
	}
	receiver, timeout := f.Receiver, f.Timeout
	if receiver == nil {
		receiver = &LoopbackReceiver{}
	}
	if timeout <= 0 {
		timeout = DefaultLoginTimeout
	}
	saved, err := a.registered(ctx)
	if err != nil {
		return nil, err
	}
	before := a.redirect
	if saved != nil {
		before = saved.Redirect
	}
	state := rand.Text()
	reception, err := receiver.Open(ctx, state, before)
	if err != nil {
		return nil, err
	}
	defer reception.Close()
	a.redirect = reception.RedirectURI()
	registration, err := a.register(ctx, a.redirect)
	if err != nil {
		return nil, err
	}
	a.clientID = registration.ClientID
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errLoginTimeout)
	defer cancel()
	code, verifier, err := f.authorize(waiting, a, reception, state)
	if err != nil {
		return nil, err
	}
	return a.request(ctx, registration, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {a.redirect},
	})
}

var errLoginTimeout = errors.New("nobody has logged in within the time for it")

// authorize sends the browser to the authorization endpoint, and waits for the code.
func (f *CodeFlow) authorize(ctx context.Context, a *ask, reception Reception, state string) (code, verifier string, err error) {
	if err := checkBrowserURL(a.server.authorizationEndpoint, a.client.options.AllowLoopback); err != nil {
		return "", "", err
	}
	open := f.Open
	if open == nil {
		open = OpenBrowser
	}
	verifier = oauth2.GenerateVerifier()
	config := oauth2.Config{
		ClientID: a.clientID, RedirectURL: a.redirect, Scopes: a.scopes,
		Endpoint: oauth2.Endpoint{AuthURL: a.server.authorizationEndpoint},
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	if a.resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", a.resource))
	}
	if err := open(ctx, config.AuthCodeURL(state, options...)); err != nil {
		return "", "", err
	}
	answer, err := reception.Wait(ctx)
	if err != nil {
		return "", "", err
	}
	code, err = a.server.readAnswer(answer, state)
	return code, verifier, err
}

// readAnswer takes the code out of an answer, if it is one to the request with the state,
// and of this server. RFC 6749, section 4.1.2, and RFC 9207, section 2.4.
func (m *serverMetadata) readAnswer(answer url.Values, state string) (string, error) {
	for _, name := range []string{"state", "iss", "code", "error"} {
		if len(answer[name]) > 1 {
			return "", &StateError{}
		}
	}
	if subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(state)) != 1 {
		return "", &StateError{}
	}
	if issuer := answer.Get("iss"); issuer != m.issuer && (answer.Has("iss") || m.namesItself) {
		return "", &IssuerError{Expected: m.issuer, Got: issuer} // whatever else it says is not to be believed
	}
	if code := answer.Get("error"); code != "" {
		return "", &Error{Code: excerpt(code), Description: excerpt(answer.Get("error_description"))}
	}
	code := answer.Get("code")
	if code == "" || len(code) > maxToken {
		return "", &Error{Code: "invalid_answer", Description: "there is neither a code nor an error in it"}
	}
	return code, nil
}
