package oauth

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// maxProof is the maximum length of a DPoP proof, in bytes. maxProofID is the maximum
	// length of its jti.
	maxProof   = 4 << 10
	maxProofID = 256
	// maxNonceAge is how long a nonce is valid.
	maxNonceAge = 5 * time.Minute
	// maxProofAge is the default and the maximum of DPoPOptions.MaxAge.
	maxProofAge = 5 * time.Minute
	// maxClockSkew is how much the clocks of processes with a common store may differ.
	maxClockSkew = time.Minute

	proofType = "dpop+jwt"
	// proofAlgorithmNames are the signature algorithms of proofs that servers accept.
	proofAlgorithmNames = "ES256 ES384 EdDSA RS256 PS256"
)

func proofAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.EdDSA, jose.RS256, jose.PS256}
}

// A proofClaims is the payload of a DPoP proof. RFC 9449, section 4.2.
type proofClaims struct {
	ID        string `json:"jti"`
	Method    string `json:"htm"`
	URI       string `json:"htu"`
	IssuedAt  int64  `json:"iat"`
	TokenHash string `json:"ath,omitempty"`
	Nonce     string `json:"nonce,omitempty"`
}

func tokenHash(token string) string {
	hash := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// A dpopKey is a client's key to which tokens are bound. RFC 9449.
type dpopKey struct {
	key    jose.JSONWebKey
	signer jose.Signer
}

func newDPoPKey() (*dpopKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return dpopKeyOf(jose.JSONWebKey{Key: key, Algorithm: string(jose.ES256)})
}

func dpopKeyOf(key jose.JSONWebKey) (*dpopKey, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType(proofType))
	if err != nil {
		return nil, err
	}
	return &dpopKey{key, signer}, nil
}

// marshal returns the private key as a JWK.
func (k *dpopKey) marshal() json.RawMessage {
	text, _ := k.key.MarshalJSON() // an ECDSA key can always be marshalled
	return text
}

func parseDPoPKey(text json.RawMessage) (*dpopKey, error) {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if _, ok := key.Key.(*ecdsa.PrivateKey); !ok {
		return nil, errSaved
	}
	return dpopKeyOf(key)
}

// prove returns a proof for one request. token and nonce may be empty.
func (k *dpopKey) prove(now time.Time, method string, to *url.URL, nonce, token string) (string, error) {
	claims := proofClaims{ID: rand.Text(), Method: method, URI: plain(to).String(), IssuedAt: now.Unix(), Nonce: nonce}
	if token != "" {
		claims.TokenHash = tokenHash(token)
	}
	return jwt.Signed(k.signer).Claims(claims).Serialize()
}

// A proofChecker checks the DPoP proofs of requests to a protected resource. RFC 9449,
// section 4.3.
type proofChecker struct {
	origin   *url.URL
	offered  bool
	required bool
	maxAge   time.Duration
	nonces   *token.Ring // nil if proofs need no nonce
	used     *usedProofs
	shared   store.KV // nil if proofs are used in this process only
}

func newProofChecker(resource *url.URL, o *DPoPOptions, shared store.KV) (*proofChecker, error) {
	p := &proofChecker{origin: resource, offered: o != nil, maxAge: maxProofAge, shared: shared}
	if o == nil {
		o = &DPoPOptions{}
	}
	p.required = o.Required
	if o.MaxAge > 0 {
		p.maxAge = o.MaxAge
	}
	life := 2*p.maxAge + time.Second // iat is in whole seconds
	if o.Nonces {
		var keys [][]byte
		if o.NonceKey != "" {
			keys = [][]byte{[]byte(o.NonceKey)}
		}
		var err error
		if p.nonces, err = token.NewRing(keys...); err != nil {
			return nil, err
		}
		life = maxNonceAge
	}
	p.used = newUsedProofs(life)
	return p, nil
}

var (
	errUnbound      = errors.New("expected a token that is bound to a key, and a proof, with the scheme DPoP")
	errBoundBearer  = errors.New("the token is bound to a key: expected the scheme DPoP, and a proof")
	errNotBound     = errors.New("the token is not bound to a key: expected the scheme Bearer")
	errOneProof     = errors.New("expected one header DPoP")
	errProofSyntax  = errors.New("expected a proof that is a JWT as in RFC 9449, section 4.2, signed with one of " + proofAlgorithmNames)
	errProofKey     = errors.New("the token is bound to another key than the proof's")
	errProofRequest = errors.New("the proof is for another request: htm and htu must be its method and URL")
	errProofToken   = errors.New("the proof is for another token: ath does not match")
	errProofTime    = errors.New("the proof is too old, or from the future")
	errProofNonce   = errors.New("expected a proof with the nonce of the header DPoP-Nonce")
	errProofUsed    = errors.New("the proof has been used")
	errTooManyUsed  = errors.New("too many DPoP proofs to detect replays")
)

// check checks that a request whose token is bound to a key has a proof of that key.
func (p *proofChecker) check(r *http.Request, presented presentedToken, grant *Grant) error {
	bound := grant.Confirmation != ""
	refused := &refusal{status: http.StatusUnauthorized, code: codeInvalidToken, dpop: presented.dpop || bound}
	switch {
	case bound && !presented.dpop:
		refused.err = errBoundBearer
	case !bound && presented.dpop:
		refused.err, refused.dpop = errNotBound, false
	case !bound && p.required:
		refused.err = errUnbound
	case !bound:
		return nil
	default:
		return p.checkProof(r, presented.token, grant.Confirmation)
	}
	return refused
}

func (p *proofChecker) checkProof(r *http.Request, token Secret, thumbprint string) error {
	refused := &refusal{status: http.StatusUnauthorized, code: codeInvalidProof, dpop: true}
	lines := r.Header["Dpop"]
	if len(lines) != 1 {
		refused.err = errOneProof
		return refused
	}
	claims, key, err := parseProof(lines[0])
	if err != nil {
		refused.err = err
		return refused
	}
	now := time.Now()
	issued := time.Unix(claims.IssuedAt, 0)
	switch {
	case !equalConstantTime(key, thumbprint):
		refused.err = errProofKey
	case claims.Method != r.Method || !p.isFor(claims.URI, r):
		refused.err = errProofRequest
	case !equalConstantTime(claims.TokenHash, tokenHash(string(token))):
		refused.err = errProofToken
	case p.nonces != nil && !p.isNonce(claims.Nonce, now):
		refused.err, refused.code = errProofNonce, codeUseNonce
		refused.nonce, err = p.nonces.Seal(nil, nonceBinding(), now.Add(maxNonceAge))
		if err != nil {
			return err
		}
	case p.nonces == nil && (issued.Before(now.Add(-p.maxAge)) || issued.After(now.Add(p.maxAge))):
		refused.err = errProofTime
	default:
		switch err := p.use(r.Context(), now, key, claims.ID); {
		case err == nil:
			return nil
		case errors.Is(err, errProofUsed):
			refused.err = err
		default:
			return err
		}
	}
	return refused
}

// use marks the proof with a key and an ID as used. It returns errProofUsed if it was used before.
// The limits of this process hold with a store too.
func (p *proofChecker) use(ctx context.Context, now time.Time, key, id string) error {
	if err := p.used.add(now, key, id); err != nil || p.shared == nil {
		return err
	}
	hash := hashOf(p.origin.String() + "\x00" + key + "\x00" + id)
	_, err := p.shared.Create(ctx, "oauth/proof/"+hex.EncodeToString(hash[:]), nil, p.used.life+maxClockSkew)
	switch {
	case errors.Is(err, store.ErrExists):
		return errProofUsed
	case err != nil:
		return fmt.Errorf("the store of used DPoP proofs: %w", err)
	}
	return nil
}

func nonceBinding() []byte { return token.Binding("DPoP-Nonce") }

func (p *proofChecker) isNonce(nonce string, now time.Time) bool {
	_, err := p.nonces.Open(nonce, nonceBinding(), now)
	return err == nil
}

// isFor reports whether a proof's URI has the resource's origin and the request's path.
func (p *proofChecker) isFor(text string, r *http.Request) bool {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	requested := r.URL
	if original, err := url.ParseRequestURI(r.RequestURI); err == nil {
		requested = original // http.StripPrefix changes only r.URL
	}
	return httpclient.SameOrigin(u, p.origin) && pathOf(u) == pathOf(requested)
}

// pathOf returns the path of a URL. The empty path equals the root: RFC 3986, section 6.2.3.
func pathOf(u *url.URL) string {
	return cmp.Or(u.EscapedPath(), "/")
}

// parseProof verifies the signature of a proof. It returns the claims and the thumbprint of
// the key.
func parseProof(text string) (*proofClaims, string, error) {
	if len(text) > maxProof || !isToken68(text) {
		return nil, "", errProofSyntax
	}
	signed, err := jose.ParseSignedCompact(text, proofAlgorithms())
	if err != nil || len(signed.Signatures) != 1 {
		return nil, "", errProofSyntax
	}
	header := &signed.Signatures[0].Protected
	typ, _ := header.ExtraHeaders[jose.HeaderType].(string)
	if !isType(typ, proofType) || header.JSONWebKey == nil || !isSignatureKey(header.JSONWebKey.Key) {
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
	claims, err := parseProofClaims(payload)
	if err != nil {
		return nil, "", err
	}
	return claims, base64.RawURLEncoding.EncodeToString(thumbprint), nil
}

func parseProofClaims(payload []byte) (*proofClaims, error) {
	members, err := jsonscan.ReadObject(payload)
	if err != nil {
		return nil, errProofSyntax
	}
	claims := &proofClaims{
		ID: syntax.Text(members.Get("jti")), Method: syntax.Text(members.Get("htm")), URI: syntax.Text(members.Get("htu")),
		TokenHash: syntax.Text(members.Get("ath")), Nonce: syntax.Text(members.Get("nonce")),
	}
	issued, ok := numericDate(members.Get("iat"))
	if !ok || claims.ID == "" || len(claims.ID) > maxProofID {
		return nil, errProofSyntax
	}
	claims.IssuedAt = issued.Unix()
	return claims, nil
}

// isSignatureKey reports whether a key is a public key of a supported algorithm. RSA keys
// are neither weak nor so long that verifying is slow.
func isSignatureKey(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA && key.N.BitLen() <= maxRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

func equalConstantTime(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// isType compares the typ of a JWT. It ignores case and a leading "application/". RFC 7515,
// section 4.1.9.
func isType(typ, want string) bool {
	if prefix := "application/"; len(typ) > len(prefix) && strings.EqualFold(typ[:len(prefix)], prefix) {
		typ = typ[len(prefix):]
	}
	return strings.EqualFold(typ, want)
}

const (
	// maxProofs is the number of proofs in a generation. maxKeyProofs is the number of proofs
	// of one key.
	maxProofs    = 1 << 18
	maxKeyProofs = 1 << 15
)

// usedProofs remembers DPoP proofs for as long as they are valid, in two generations. The
// older generation is dropped as a whole when all its proofs are invalid. It is not an LRU
// cache: evicting a valid proof would allow a replay. When a generation is full, further
// proofs are refused. The limit per key prevents that one client fills it alone.
type usedProofs struct {
	life     time.Duration
	capacity int
	perKey   int

	mu      sync.Mutex
	started time.Time // of the current generation
	current generation
	old     generation
}

type generation struct {
	proofs map[proofHash]struct{}
	keys   map[proofHash]int // the number of proofs of each key
}

type proofHash [16]byte

func hashOf(text string) proofHash {
	whole := sha256.Sum256([]byte(text))
	return proofHash(whole[:])
}

// newUsedProofs returns an empty set that remembers each proof for at least life.
func newUsedProofs(life time.Duration) *usedProofs {
	return &usedProofs{life: life, current: newGeneration(), capacity: maxProofs, perKey: maxKeyProofs}
}

func newGeneration() generation {
	return generation{make(map[proofHash]struct{}), make(map[proofHash]int)}
}

// add adds the proof with a key and an ID. It returns errProofUsed if the proof was added
// before, and errTooManyUsed if the generation is full.
func (u *usedProofs) add(now time.Time, key, id string) error {
	hash, owner := hashOf(key+"\x00"+id), hashOf(key)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rotate(now)
	_, inOld := u.old.proofs[hash]
	_, inCurrent := u.current.proofs[hash]
	switch {
	case inOld || inCurrent:
		return errProofUsed
	case len(u.current.proofs) >= u.capacity || u.current.keys[owner] >= u.perKey:
		return errTooManyUsed
	}
	u.current.proofs[hash] = struct{}{}
	u.current.keys[owner]++
	return nil
}

// rotate starts a new generation when the current one is older than life.
func (u *usedProofs) rotate(now time.Time) {
	switch age := now.Sub(u.started); {
	case age < u.life:
		return
	case age < 2*u.life:
		u.old = u.current
	default:
		u.old = generation{}
	}
	u.current, u.started = newGeneration(), now
}
