package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// maxResponse is how much of a response is read, in bytes.
const maxResponse = 4 << 10

// An outcome is how one attempt ended.
type outcome struct {
	accepted bool
	// refused says that the endpoint does not want the message, now or later.
	refused bool
	// reason is the reason of a failure, "" if accepted.
	reason delivery.Reason
	// retryAfter is how long the endpoint wants no attempt.
	retryAfter time.Duration
	body       []byte // the beginning of the response, if accepted
}

// post sends a signed message to a callback URL. It returns an error if the message cannot be sent
// to any endpoint.
func (d *deliverer) post(ctx context.Context, sub *subscription, id string, body []byte) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.URL, bytes.NewReader(body))
	if err != nil {
		return outcome{}, errors.New("the callback URL is malformed") // the text of err contains it
	}
	now := time.Now()
	secrets, err := sub.secrets(now)
	if err != nil {
		return outcome{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(webhook.SubscriptionHeader, sub.ID)
	if err := signature.Sign(req.Header, secrets, id, now, body); err != nil {
		return outcome{}, err
	}
	res, err := d.client.Do(req)
	if err != nil {
		return outcome{reason: reasonOf(err)}, nil
	}
	defer res.Body.Close()
	head, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	switch status := res.StatusCode; {
	case status >= 200 && status <= 299 && err != nil:
		// An endpoint that breaks off may not have stored the message.
		return outcome{reason: reasonOf(err)}, nil
	case status >= 200 && status <= 299:
		return outcome{accepted: true, body: head}, nil
	case status == http.StatusGone || status == http.StatusRequestEntityTooLarge:
		return outcome{refused: true, reason: delivery.HTTP4xx}, nil
	case status >= 500:
		return outcome{reason: delivery.HTTP5xx, retryAfter: retryAfter(res.Header, now)}, nil
	default:
		return outcome{reason: delivery.HTTP4xx, retryAfter: retryAfter(res.Header, now)}, nil
	}
}

// reasonOf returns the category of a network error. A refused address counts as one that cannot be
// reached, so that a client does not learn about the network of the server.
func reasonOf(err error) delivery.Reason {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return delivery.Timeout
	}
	if errors.Is(err, http.ErrSchemeMismatch) || isType[*tls.CertificateVerificationError](err) || isType[tls.RecordHeaderError](err) || isType[tls.AlertError](err) ||
		isType[x509.UnknownAuthorityError](err) || isType[x509.HostnameError](err) || isType[x509.CertificateInvalidError](err) {
		return delivery.TLSError
	}
	return delivery.ConnectionRefused
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// retryAfter returns the value of the header Retry-After (RFC 9110, section 10.2.3), or 0.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// hostOf returns the host of a callback URL, for limits and logs.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}
