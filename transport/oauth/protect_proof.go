package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/seal"
	"github.com/dovetail-go/dovetail/internal/webclient"
)

// proofAlgorithmNames are the algorithms that proofs may be signed with.
const proofAlgorithmNames = "ES256 ES384 EdDSA RS256 PS256"

func proofAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.EdDSA, jose.RS256, jose.PS256}
}

// proofs holds the proofs of possession that come with bound tokens against their
// requests. RFC 9449, section 4.3.
type proofs struct {
	origin   *url.URL
	offered  bool
	required bool
	maxAge   time.Duration
	nonces   *seal.Ring // nil: proofs need none
	seen     *replays
}

func newProofs(resource *url.URL, o *DPoPOptions) (*proofs, error) {
	p := &proofs{origin: resource, offered: o != nil, maxAge: maxProofAge}
	if o != nil {
		p.required = o.Required
		if o.MaxAge > 0 {
			p.maxAge = o.MaxAge
		}
		if o.Nonces {
			var keys [][]byte
			if o.NonceKey != nil {
				keys = [][]byte{o.NonceKey}
			}
			var err error
			if p.nonces, err = seal.NewRing(keys...); err != nil {
				return nil, err
			}
		}
	}
	life := 2*p.maxAge + time.Second // iat is in whole seconds
	if p.nonces != nil {
		life = maxNonceAge
	}
	p.seen = newReplays(life)
	return p, nil
}

var (
	errUnbound      = errors.New("expected a token that is bound to a key, and a proof, with the scheme DPoP")
	errBoundBearer  = errors.New("the token is bound to a key: expected the scheme DPoP, and a proof")
	errNotBound     = errors.New("the token is not bound to a key: expected the scheme Bearer")
	errOneProof     = errors.New("expected one header DPoP")
	errProofSyntax  = errors.New("the proof is no JWT as RFC 9449, section 4.2, has it, signed with one of " + proofAlgorithmNames)
	errProofKey     = errors.New("the token is bound to another key than that of the proof")
	errProofRequest = errors.New("the proof is for another request: htm and htu must be its method and URL")
	errProofToken   = errors.New("the proof is for another token, as ath says")
	errProofTime    = errors.New("the proof is too old, or of the future")
	errProofNonce   = errors.New("the proof needs the nonce of the header DPoP-Nonce")
	errProofSeen    = errors.New("the proof has been used")
	errProofsFull   = errors.New("too many proofs come in to remember them")
)

// check demands of a bound token that who shows it has the key.
func (p *proofs) check(r *http.Request, shown credentials, grant *Grant) error {
	bound := grant.Confirmation != ""
	refused := &refusal{status: http.StatusUnauthorized, code: codeInvalidToken, dpop: shown.dpop || bound}
	switch {
	case bound && !shown.dpop:
		refused.err = errBoundBearer
	case !bound && shown.dpop:
		refused.err, refused.dpop = errNotBound, false
	case !bound && p.required:
		refused.err = errUnbound
	case !bound:
		return nil
	default:
		return p.checkProof(r, shown.token, grant.Confirmation)
	}
	return refused
}

func (p *proofs) checkProof(r *http.Request, token Secret, thumbprint string) error {
	refused := &refusal{status: http.StatusUnauthorized, code: codeInvalidProof, dpop: true}
	lines := r.Header["Dpop"]
	if len(lines) != 1 {
		refused.err = errOneProof
		return refused
	}
	said, key, err := readProof(lines[0])
	if err != nil {
		refused.err = err
		return refused
	}
	now := time.Now()
	hash := sha256.Sum256([]byte(token))
	made := time.Unix(said.IssuedAt, 0)
	switch {
	case !sameText(key, thumbprint):
		refused.err = errProofKey
	case said.Method != r.Method || !p.isFor(said.URI, r):
		refused.err = errProofRequest
	case !sameText(said.TokenHash, base64.RawURLEncoding.EncodeToString(hash[:])):
		refused.err = errProofToken
	case p.nonces != nil && !p.knowsNonce(said.Nonce, now):
		refused.err, refused.code = errProofNonce, codeUseNonce
		refused.nonce, err = p.nonces.Seal(nil, nonceBinding(), now.Add(maxNonceAge))
		if err != nil {
			return err
		}
	case p.nonces == nil && (made.Before(now.Add(-p.maxAge)) || made.After(now.Add(p.maxAge))):
		refused.err = errProofTime
	default:
		switch p.seen.add(now, key, said.ID) {
		case replayed:
			refused.err = errProofSeen
		case crowded:
			return errProofsFull
		case added:
			return nil
		}
	}
	return refused
}

func nonceBinding() []byte { return seal.Binding("DPoP-Nonce") }

func (p *proofs) knowsNonce(nonce string, now time.Time) bool {
	_, err := p.nonces.Open(nonce, nonceBinding(), now)
	return err == nil
}

// isFor compares a proof's URI with that of a request: the origin that clients know, and
// the path that has come.
func (p *proofs) isFor(text string, r *http.Request) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	path := r.URL
	if seen, err := url.ParseRequestURI(r.RequestURI); err == nil {
		path = seen // http.StripPrefix does not change it
	}
	return webclient.SameOrigin(u, p.origin) && rooted(u.EscapedPath()) == rooted(path.EscapedPath())
}

// rooted is a path; the empty one is the root. RFC 3986, section 6.2.3.
func rooted(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// readProof reads a proof, and returns the thumbprint of its key, which has signed it.
func readProof(text string) (*proof, string, error) {
	if len(text) > maxProof || !isToken68(text) {
		return nil, "", errProofSyntax
	}
	signed, err := jose.ParseSignedCompact(text, proofAlgorithms())
	if err != nil || len(signed.Signatures) != 1 {
		return nil, "", errProofSyntax
	}
	header := &signed.Signatures[0].Protected
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); !isType(typ, "dpop+jwt") || !isProofKey(header.JSONWebKey) {
		return nil, "", errProofSyntax
	}
	payload, err := signed.Verify(header.JSONWebKey)
	if err != nil {
		return nil, "", errProofSyntax
	}
	thumbprint, err := header.JSONWebKey.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, "", errProofSyntax
	}
	said, err := parseProof(payload)
	if err != nil {
		return nil, "", err
	}
	return said, base64.RawURLEncoding.EncodeToString(thumbprint), nil
}

func parseProof(payload []byte) (*proof, error) {
	members, err := jsonscan.ReadObject(payload)
	if err != nil {
		return nil, errProofSyntax
	}
	said := &proof{
		ID: text(members.Get("jti")), Method: text(members.Get("htm")), URI: text(members.Get("htu")),
		TokenHash: text(members.Get("ath")), Nonce: text(members.Get("nonce")),
	}
	made, ok := numericDate(members.Get("iat"))
	if !ok || said.ID == "" || len(said.ID) > maxProofID {
		return nil, errProofSyntax
	}
	said.IssuedAt = made.Unix()
	return said, nil
}

// isProofKey tells a public key that is strong enough, and not so big that a signature
// with it costs much.
func isProofKey(key *jose.JSONWebKey) bool {
	if key == nil {
		return false
	}
	switch public := key.Key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	case *rsa.PublicKey:
		return isRSAKey(public)
	}
	return false
}

// sameText compares in a time that does not tell where texts differ.
func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// isType compares the typ of a JWT, of which "application/" may be left out, and whose
// case has no meaning. RFC 7515, section 4.1.9.
func isType(typ, want string) bool {
	if prefix := "application/"; len(typ) > len(prefix) && strings.EqualFold(typ[:len(prefix)], prefix) {
		typ = typ[len(prefix):]
	}
	return strings.EqualFold(typ, want)
}

// numericDate reads a time. RFC 7519, section 2.
func numericDate(raw json.RawMessage) (time.Time, bool) {
	if jsonscan.KindOf(raw) != jsonscan.Number {
		return time.Time{}, false
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil || !(seconds > 0 && seconds < maxDate) {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}
