package oauth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// A knownServer is what a client knows about one server.
type knownServer struct {
	key         string
	credentials atomic.Pointer[credentials]
	nonce       atomic.Pointer[string] // for the next DPoP proof to the server
	loaded      atomic.Bool            // the store was read

	// Guarded by the server's lock.
	stepUps map[string]int // how often scopes were requested, by challenged scopes
	logins  []time.Time    // that the server has caused within LoginWindow, oldest first
}

// knownServer returns what the client knows about a server.
func (c *Client) knownServer(server *url.URL) (*knownServer, error) {
	if err := c.checkServer(server); err != nil {
		return nil, err
	}
	key := serverKey(server)
	if known, ok := c.servers.Get(key); ok {
		return known, nil
	}
	known := &knownServer{key: key, stepUps: make(map[string]int)}
	if other, ok, _ := c.servers.PeekOrAdd(key, known); ok {
		return other, nil
	}
	return known, nil
}

// lockServer waits for the exclusive right to change the credentials of a server, and
// reads the store.
func (c *Client) lockServer(ctx context.Context, known *knownServer, server *url.URL) (unlock func(), err error) {
	if unlock, err = c.locks.lock(ctx, "server "+known.key); err != nil {
		return nil, err
	}
	if err := c.load(ctx, known, server); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// share calls fn with the server's lock, once for all concurrent callers with the same
// purpose.
func (c *Client) share(ctx context.Context, known *knownServer, server *url.URL, purpose string, fn func(ctx context.Context) error) error {
	_, err := c.calls.do(ctx, known.key+" "+purpose, func(ctx context.Context) (none struct{}, err error) {
		unlock, err := c.lockServer(ctx, known, server)
		if err != nil {
			return none, err
		}
		defer unlock()
		return none, fn(ctx)
	})
	return err
}

// load reads the credentials from the store. It uses those that another program has saved
// since.
func (c *Client) load(ctx context.Context, known *knownServer, server *url.URL) error {
	text, err := c.options.Store.Load(ctx, credentialsKey(known.key))
	if err != nil {
		return &StoreError{"load a token", err}
	}
	if text != "" {
		saved, err := parseCredentials(text)
		switch {
		case err != nil || !covers(saved.Resource, server): // the next login replaces it
			c.options.Logger.Warn("a saved token is malformed or for another server; it is ignored", "server", known.key)
		case saved.isNewerThan(known.credentials.Load()):
			known.credentials.Store(saved)
		}
	}
	known.loaded.Store(true)
	return nil
}

// save sets the credentials of a server, also in the store. nil deletes them.
func (c *Client) save(ctx context.Context, known *knownServer, next *credentials) error {
	known.credentials.Store(next)
	var text Secret
	var err error
	if next != nil {
		text, err = next.marshal()
	}
	if err == nil {
		err = c.options.Store.Save(ctx, credentialsKey(known.key), text)
	}
	if err != nil {
		return &StoreError{"save a token", err}
	}
	return nil
}

// isUsable reports whether credentials may be sent. With ClientOptions.DPoP, only those
// that are bound to a key may.
func (c *Client) isUsable(l *credentials) bool {
	return l != nil && (l.key != nil || !c.options.DPoP)
}

// isValid reports whether credentials are usable and not about to expire.
func (c *Client) isValid(l *credentials) bool {
	return c.isUsable(l) && !l.hasExpired(c.options.Clock().Add(expiryMargin))
}

// current returns the credentials for a request, nil if there are none. It refreshes those
// that are about to expire.
func (c *Client) current(ctx context.Context, known *knownServer, server *url.URL) (*credentials, error) {
	switch l := known.credentials.Load(); {
	case c.isValid(l):
		return l, nil
	case l == nil && known.loaded.Load():
		return nil, nil
	}
	err := c.share(ctx, known, server, "refresh", func(ctx context.Context) error { return c.refreshExpiring(ctx, known, server) })
	if l := known.credentials.Load(); ctx.Err() == nil && c.isUsable(l) && !l.hasExpired(c.options.Clock()) {
		return l, nil // refreshing has failed, but the token is still valid for a few seconds
	}
	return nil, err
}

// refreshExpiring refreshes the credentials of a server if they are about to expire. A
// refusal of the authorization server is not an error: the server's challenge follows.
func (c *Client) refreshExpiring(ctx context.Context, known *knownServer, server *url.URL) error {
	l := known.credentials.Load()
	if !c.isUsable(l) || c.isValid(l) || l.RefreshToken == "" {
		return nil
	}
	err := c.refresh(ctx, known, server, l)
	if err == nil || !isFinal(err) {
		return err
	}
	c.options.Logger.Info("the token cannot be refreshed", "server", known.key, "error", err)
	if endsRefreshing(err) {
		known.credentials.Store(l.withoutRefresh()) // the store may already hold another program's credentials
	}
	return nil
}

// obtain gets a token that satisfies a challenge. The caller holds the server's lock.
func (c *Client) obtain(ctx context.Context, known *knownServer, server *url.URL, challenge tokenChallenge) error {
	old := known.credentials.Load()
	isStepUp := challenge.status == http.StatusForbidden
	if isStepUp && old != nil {
		if err := known.stepUp(old, challenge.scopes()); err != nil {
			return err
		}
	}
	_, onlySaved := c.options.Flow.(*SavedTokens)
	if onlySaved && (old == nil || old.RefreshToken == "") {
		return ErrLoginRequired
	}
	resource, err := c.discover(ctx, server, challenge.params["resource_metadata"])
	if err != nil {
		return err
	}
	issuer := c.chooseIssuer(resource, old)
	unlock, err := c.locks.lock(ctx, "issuer "+issuer)
	if err != nil {
		return err
	}
	defer unlock()
	as, err := c.authorizationServer(ctx, issuer, isAbsent(resource.missing))
	if err != nil {
		if resource.missing != nil {
			err = &MetadataError{
				URL: shown(server), Reason: "neither the server nor an authorization server at its origin has usable metadata",
				Err: placesError{resource.missing, err}, failure: failureOfAll(resource.missing, err),
			}
		}
		return err
	}
	if as.missing != nil {
		as.missing = placesError{resource.missing, as.missing}
	}
	if old != nil && (old.Issuer != as.issuer || old.Resource != resource.resource || as.url == "" && !old.Legacy) {
		old = nil // what one authorization server has issued is not sent to another
	}
	request := &tokenRequest{client: c, server: as, resource: resource.resource, scopes: c.scopesToRequest(challenge, resource, as, old)}
	if old != nil {
		request.key, request.redirectURI = old.key, old.RedirectURI
	}
	if challenge.status != 0 {
		request.causedBy = known
	}
	if request.key == nil && (c.options.DPoP || challenge.dpop || resource.dpopRequired) {
		if request.key, err = newDPoPKey(); err != nil {
			return err
		}
	}
	if old != nil && old.RefreshToken != "" && old.key == request.key && !isStepUp && containsAll(old.Requested, request.scopes) {
		if err := c.refreshAt(ctx, known, server, old, as); err == nil || !isFinal(err) {
			return err
		}
	}
	c.options.Logger.Debug("requesting a token", "server", known.key, "issuer", as.issuer, "scopes", request.scopes)
	token, err := c.options.Flow.token(ctx, request)
	if err != nil {
		return as.explain(err)
	}
	next, err := newCredentials(request, token)
	if err != nil {
		return &AnswerError{Issuer: as.issuer, Err: err}
	}
	next.isNew = true
	if !isStepUp {
		clear(known.stepUps)
	}
	return c.save(ctx, known, next)
}

// stepUp counts how often scopes were requested. It refuses a request that cannot help.
func (s *knownServer) stepUp(old *credentials, scopes []string) error {
	key := sortedScope(scopes)
	if containsAll(old.Granted, scopes) || s.stepUps[key] >= maxStepUps || len(s.stepUps) >= maxChallengedScopes {
		return &StepUpError{Scopes: scopes, Granted: old.Granted}
	}
	s.stepUps[key]++
	return nil
}

// countLogin counts a login that the server causes. It refuses one more than limit within
// LoginWindow.
func (s *knownServer) countLogin(limit int, now time.Time) error {
	if limit < 0 {
		return nil
	}
	s.logins = slices.DeleteFunc(s.logins, func(at time.Time) bool { return now.Sub(at) >= LoginWindow })
	if len(s.logins) >= limit {
		return &LoginLimitError{Max: limit, Retry: s.logins[0].Add(LoginWindow)}
	}
	s.logins = append(s.logins, now)
	return nil
}

// chooseIssuer returns one of a resource's authorization servers: one for which the program
// has a registration, else the issuer of the old credentials, else the first.
func (c *Client) chooseIssuer(resource *resourceMetadata, old *credentials) string {
	for _, issuer := range resource.issuers {
		if slices.ContainsFunc(c.options.Registrations, func(r Registration) bool { return r.Issuer != "" && sameIssuer(r.Issuer, issuer) }) {
			return issuer
		}
	}
	if old != nil && slices.ContainsFunc(resource.issuers, func(issuer string) bool { return sameIssuer(issuer, old.Issuer) }) {
		return old.Issuer
	}
	return resource.issuers[0]
}

// refresh replaces credentials. The caller holds the server's lock, and not the issuer's:
// another server's login there may wait for a person.
func (c *Client) refresh(ctx context.Context, known *knownServer, server *url.URL, old *credentials) error {
	as, err := c.authorizationServer(ctx, old.Issuer, old.Legacy)
	if err != nil {
		return err
	}
	return c.refreshAt(ctx, known, server, old, as)
}

// refreshAt replaces credentials at the authorization server that has issued them. The
// response may replace the refresh token too (RFC 9700, section 2.2.2); if it does not,
// package oauth2 keeps the old one.
func (c *Client) refreshAt(ctx context.Context, known *knownServer, server *url.URL, old *credentials, as *serverMetadata) error {
	if old.Issuer != as.issuer {
		return &IssuerError{Expected: old.Issuer, Got: as.issuer}
	}
	unlock, err := c.lockStore(ctx, known)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.load(ctx, known, server); err != nil {
		return err
	}
	if known.credentials.Load() != old {
		return nil // another program has refreshed the token
	}
	request := &tokenRequest{client: c, server: as, resource: old.Resource, scopes: old.Requested, key: old.key, redirectURI: old.RedirectURI}
	registration, err := request.existingRegistration(ctx)
	if err != nil {
		return err
	}
	if _, onlySaved := c.options.Flow.(*SavedTokens); onlySaved && registration == nil {
		registration = &Registration{Issuer: as.issuer, ClientID: old.ClientID, Method: methodNone} // of the program that has logged in
	}
	if registration == nil || registration.ClientID != old.ClientID {
		return errRegistrationGone
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The old refresh token is used up once the request is sent, so the response must be
	// saved even if no caller waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	next, err := request.refresh(ctx, registration, old)
	switch {
	case err == nil:
		return c.save(ctx, known, next)
	case isCode(err, "invalid_client"): // at the authorization endpoint, the person would see an error in place of a login
		_, storeErr := request.forgetRegistration(ctx, registration.ClientID)
		return cmp.Or(storeErr, err)
	case !isCode(err, "invalid_grant"):
		return err
	}
	// Another program may have used the refresh token first and saved its result.
	if loadErr := c.load(ctx, known, server); loadErr != nil {
		return loadErr
	}
	if known.credentials.Load() != old {
		return nil
	}
	return err
}

// lockStore waits until no other process refreshes the token of a server, if the store can
// exclude other processes.
func (c *Client) lockStore(ctx context.Context, known *knownServer) (unlock func(), err error) {
	store, ok := c.options.Store.(LockingStore)
	if !ok {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*refreshTimeout, errRefreshLocked)
	defer cancel()
	if unlock, err = store.Lock(ctx, credentialsKey(known.key)); err != nil {
		return nil, &StoreError{"lock a token", err}
	}
	return unlock, nil
}

var errRefreshLocked = errors.New("another process has not finished refreshing the token")

var errRegistrationGone = errors.New("the token was issued to a client registration that no longer exists")

// endsRefreshing reports whether an error says that a refresh token will never work again.
// RFC 6749, section 5.2.
func endsRefreshing(err error) bool {
	return isCode(err, "invalid_grant") || isCode(err, "invalid_client") || isCode(err, "unauthorized_client") || errors.Is(err, errRegistrationGone)
}

// isFinal reports whether an error is an authorization server's decision about a refresh
// token, after which another flow may be tried. Other failures may be temporary.
func isFinal(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		switch refused.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return false
		}
		return refused.Status < http.StatusInternalServerError
	}
	if missing, ok := errors.AsType[*MetadataError](err); ok {
		return missing.failure != temporary
	}
	_, other := errors.AsType[*IssuerError](err)
	_, malformed := errors.AsType[*AnswerError](err)
	return other || malformed || errors.Is(err, errRegistrationGone)
}

// Limits of obtaining tokens.
const (
	// defaultLoginTimeout is how long a person may take to log in.
	defaultLoginTimeout = 5 * time.Minute
	// defaultMaxLogins is how often one server may cause a login within LoginWindow.
	defaultMaxLogins = 5
	// LoginWindow is the time in which logins are counted.
	LoginWindow = 10 * time.Minute
	// refreshTimeout bounds a refresh, which may need two requests, and saving the result.
	refreshTimeout = 25 * time.Second
	// expiryMargin is how long before its expiry a token is refreshed.
	expiryMargin = 10 * time.Second
	// maxServers is the number of servers and nonces that a client holds in memory.
	maxServers = 1024
	// maxStepUps is how often more scopes are requested for the same challenge.
	maxStepUps = 2
	// maxChallengedScopes is the number of different scope challenges that are counted per server.
	maxChallengedScopes = 64
	// maxNonce is the maximum length of a nonce for DPoP proofs, in bytes.
	maxNonce = 1 << 10
	// maxToken is the maximum length of a token, in bytes.
	maxToken = 64 << 10
)
