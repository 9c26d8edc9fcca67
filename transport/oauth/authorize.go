package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/webclient"
)

// Authorize adds the token for a server to a request, if there is one, and a proof if
// the token is bound to a key. What goes to another origin than the server's gets none.
func (c *Client) Authorize(ctx context.Context, server *url.URL, req *http.Request) error {
	if !webclient.SameOrigin(server, req.URL) {
		return nil
	}
	a, drop, err := c.access(server)
	if err != nil {
		return nil // a server that wants a token will say so
	}
	defer drop()
	l, err := c.current(ctx, a, server)
	if err != nil || l == nil {
		return err
	}
	l.uses.Add(1)
	if l.key == nil {
		req.Header.Set("Authorization", "Bearer "+string(l.access))
		return nil
	}
	nonce := ""
	if p := a.nonce.Load(); p != nil {
		nonce = *p
	}
	proof, err := l.key.prove(c.options.Clock(), req.Method, req.URL, nonce, l.access)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "DPoP "+string(l.access))
	req.Header.Set("DPoP", proof)
	return nil
}

// Challenged gets a token that a server demands, and says whether the request can be sent
// once more. Its error is one of this package, of the network, or of ctx.
func (c *Client) Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error) {
	if !webclient.SameOrigin(server, req.URL) {
		return false, nil
	}
	d := demandOf(res)
	if d.status == http.StatusForbidden && d.params["error"] != "insufficient_scope" {
		return false, nil
	}
	a, drop, err := c.access(server)
	if err != nil {
		return false, err
	}
	defer drop()
	if nonce := nonceOf(res.Header); nonce != "" {
		a.nonce.Store(&nonce)
		if d.params["error"] == "use_dpop_nonce" && d.status == http.StatusUnauthorized {
			return true, nil
		}
	}
	err = c.meet(ctx, a, server, d, tokenOf(req.Header))
	if errors.Is(err, errFutile) {
		return false, nil
	}
	return err == nil, err
}

var errFutile = errors.New("the server refuses a token that it has just got")

// meet gets a token that meets a demand, other than one that was shown, once for all who
// have the same demand. The error is errFutile when another token would fare no better.
func (c *Client) meet(ctx context.Context, a *access, server *url.URL, d demand, shown string) error {
	return c.share(ctx, a, server, d.name(), func(ctx context.Context) error {
		l := a.login.Load()
		switch {
		case c.isGood(l) && string(l.access) != shown:
			return nil // there is another one by now
		case l != nil && string(l.access) == shown && d.status == http.StatusUnauthorized && l.fresh && l.uses.Load() <= 1:
			return errFutile
		}
		return c.renew(ctx, a, server, d)
	})
}

// A demand is what a server wants to see.
type demand struct {
	status int
	params map[string]string // of the challenge
	dpop   bool              // a token that is bound to a key, and no other
}

// demandOf reads a refusal. A challenge that cannot be read is none.
func demandOf(res *http.Response) demand {
	d := demand{status: res.StatusCode}
	challenges, _ := ParseChallenges(res.Header["Www-Authenticate"])
	bearer := false
	for _, challenge := range challenges {
		switch {
		case challenge.Is("Bearer"):
			bearer = true
			if d.params == nil || d.dpop {
				d.params = challenge.Params
			}
		case challenge.Is("DPoP"):
			if d.params == nil || challenge.Params["error"] != "" {
				d.params = challenge.Params
			}
			d.dpop = true
		}
	}
	d.dpop = d.dpop && !bearer
	return d
}

// name is the same for demands that one token meets.
func (d demand) name() string {
	if d.status != http.StatusForbidden {
		return "login"
	}
	return "scopes " + strings.Join(slices.Sorted(slices.Values(d.scopes())), " ")
}

// scopes are those that are demanded.
func (d demand) scopes() []string { return splitScope(d.params["scope"]) }

// tokenOf is the token that a request was sent with.
func tokenOf(header http.Header) string {
	_, token, _ := strings.Cut(header.Get("Authorization"), " ")
	return token
}

// nonceOf is the nonce that a server gives for the next proof, "" if none.
func nonceOf(header http.Header) string {
	nonce := header.Get("DPoP-Nonce")
	if len(nonce) > maxNonce {
		return ""
	}
	return nonce
}
