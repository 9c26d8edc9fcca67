package signature

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/webhook"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The names of the headers.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	// maxSignatures bounds the signature header, in bytes: about 10 signatures of 64 bytes.
	maxSignatures = 1024
	// maxTimestamp bounds the timestamp header, in bytes.
	maxTimestamp = 20
)

var (
	// ErrHeader means that a header is missing, repeated, too long or malformed.
	ErrHeader = errors.New("signature: a signature header is missing or malformed")
	// ErrTime means that the timestamp is more than 5 minutes old, or that far in the future.
	ErrTime = errors.New("signature: the timestamp is not within 5 minutes of now")
	// ErrSignature means that no signature is from the secret for this request.
	ErrSignature = errors.New("signature: no signature is valid")
)

// Sign sets the three headers of a request with a body, signed with each secret. The id must pass
// [IsID].
func Sign(header http.Header, secrets []webhook.Secret, id string, at time.Time, body []byte) error {
	if !IsID(id) {
		return ErrHeader
	}
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		signer, err := standardwebhooks.NewWebhookRaw(secret.Bytes())
		if err != nil {
			return err
		}
		if signatures[i], err = signer.Sign(id, at, body); err != nil {
			return err
		}
	}
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	header.Set(HeaderSignature, strings.Join(signatures, " "))
	return nil
}

// Verify verifies that a request with a body was signed with a secret within 5 minutes. It compares
// signatures in constant time. The error is [ErrHeader], [ErrTime] or [ErrSignature].
func Verify(header http.Header, secret webhook.Secret, body []byte) error {
	if !IsID(header.Get(HeaderID)) || !single(header, HeaderID, webhook.MaxID) ||
		!single(header, HeaderTimestamp, maxTimestamp) || !single(header, HeaderSignature, maxSignatures) {
		return ErrHeader
	}
	if len(secret.Bytes()) < webhook.MinSecret { // with an empty key, anyone could sign
		return ErrSignature
	}
	verifier, err := standardwebhooks.NewWebhookRaw(secret.Bytes())
	if err != nil {
		return err
	}
	err = verifier.Verify(body, header)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, standardwebhooks.ErrNoMatchingSignature):
		return ErrSignature
	case errors.Is(err, standardwebhooks.ErrMessageTooOld), errors.Is(err, standardwebhooks.ErrMessageTooNew):
		return ErrTime
	}
	return ErrHeader
}

// single reports whether a header has one value, of 1 to limit bytes.
func single(header http.Header, name string, limit int) bool {
	values := header.Values(name)
	return len(values) == 1 && values[0] != "" && len(values[0]) <= limit
}

// IsID reports whether a webhook-id consists of 1 to [webhook.MaxID] visible ASCII characters.
// An id with other characters would change in a header, and the signature with it.
func IsID(id string) bool {
	if id == "" || len(id) > webhook.MaxID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
