package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// claims are what a token, or the answer about one, says: an object of JSON, of which no
// member is there twice. RFC 7519, section 4.1; RFC 7662, section 2.2; RFC 9068.
type claims struct {
	members jsonscan.Members
	raw     json.RawMessage
}

func readClaims(raw []byte) (*claims, error) {
	members, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, &InvalidTokenError{Reason: "its claims are no JSON object"}
	}
	return &claims{members, raw}, nil
}

// times says whether now lies between the times that are there. It returns the end, which
// is zero if there is none.
func (c *claims) times(now time.Time, skew time.Duration) (time.Time, error) {
	var at [3]time.Time
	for i, name := range [...]string{"exp", "nbf", "iat"} {
		raw := c.members.Get(name)
		if raw == nil {
			continue
		}
		var ok bool
		if at[i], ok = numericDate(raw); !ok {
			return time.Time{}, &InvalidTokenError{Reason: "its claim " + name + " is no time"}
		}
	}
	switch end, from, made := at[0], at[1], at[2]; {
	case !end.IsZero() && !now.Before(end.Add(skew)):
		return time.Time{}, &InvalidTokenError{Reason: "it has expired"}
	case now.Before(from.Add(-skew)), now.Before(made.Add(-skew)):
		return time.Time{}, &InvalidTokenError{Reason: "it is not valid yet"}
	default:
		return end, nil
	}
}

// isFor says whether an audience is among those that are named.
func (c *claims) isFor(audience string) (bool, error) {
	all, err := c.texts("aud")
	return slices.Contains(all, audience), err
}

// grant is what the claims stand for.
func (c *claims) grant() (*Grant, error) {
	g := &Grant{Claims: c.raw}
	var err error
	for _, claim := range []struct {
		name string
		into *string
	}{{"iss", &g.Issuer}, {"sub", &g.Subject}, {"client_id", &g.ClientID}} {
		if *claim.into, err = c.text(claim.name); err != nil {
			return nil, err
		}
	}
	if g.ClientID == "" { // as OpenID Connect has it
		if g.ClientID, err = c.text("azp"); err != nil {
			return nil, err
		}
	}
	if g.Scopes, err = c.scopes(); err != nil {
		return nil, err
	}
	g.Confirmation, err = c.confirmation()
	return g, err
}

// text is a claim that is a string, "" if it is not there.
func (c *claims) text(name string) (string, error) {
	raw := c.members.Get(name)
	if raw == nil {
		return "", nil
	}
	value := text(raw)
	if value == "" || len(value) > maxClaim {
		return "", &InvalidTokenError{Reason: fmt.Sprintf("its claim %s is no string of 1 to %d bytes", name, maxClaim)}
	}
	return value, nil
}

// texts is a claim that is a string or a list of strings.
func (c *claims) texts(name string) ([]string, error) {
	raw := c.members.Get(name)
	var all []string
	var err error
	switch jsonscan.KindOf(raw) {
	case jsonscan.EOF:
		return nil, nil
	case jsonscan.String:
		return []string{text(raw)}, nil
	case jsonscan.Array:
		err = json.Unmarshal(raw, &all)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil || len(all) > maxGranted {
		return nil, &InvalidTokenError{Reason: fmt.Sprintf("its claim %s is no string, nor a list of at most %d", name, maxGranted)}
	}
	return all, nil
}

// scopes are those of RFC 8693, section 4.2, or else of scp, as some servers call them.
func (c *claims) scopes() ([]string, error) {
	name := "scope"
	if c.members.Get(name) == nil {
		name = "scp"
	}
	all, err := c.texts(name)
	if err == nil && len(all) == 1 {
		all = strings.Fields(all[0])
	}
	if len(all) > maxGranted {
		return nil, &InvalidTokenError{Reason: fmt.Sprintf("it has more than %d scopes", maxGranted)}
	}
	return all, err
}

// confirmation is the key that a token is bound to. A token that is bound in another way
// is not valid here, where nobody can tell who may show it. RFC 7800, section 3.1.
func (c *claims) confirmation() (string, error) {
	raw := c.members.Get("cnf")
	if raw == nil {
		return "", nil
	}
	bound, err := jsonscan.ReadObject(raw)
	if err == nil && bound.Len() == 1 {
		if thumbprint := text(bound.Get("jkt")); thumbprint != "" {
			return thumbprint, nil
		}
	}
	return "", &InvalidTokenError{Reason: "it is bound in a way that is not known here"}
}
