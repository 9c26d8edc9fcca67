package oauth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/transport"
)

// An Error is an error response of an authorization server. RFC 6749, sections 4.1.2.1 and
// 5.2.
type Error struct {
	// Code is the error code, such as "invalid_grant". It is "" if the response has none: then it
	// may be from a proxy or a gateway in front of the authorization server.
	Code string
	// Description is the server's description, at most 256 bytes. It may be empty.
	Description string
	// Status is the HTTP status; 0 for a response that a browser delivered.
	Status int
}

// Error quotes the code and the description. Without a code, it has the status.
func (e *Error) Error() string {
	text := "the authorization server returned the error " + quote(e.Code)
	if e.Code == "" {
		text = fmt.Sprintf("the authorization server returned status %d without an error code", e.Status)
	}
	if e.Description != "" {
		text += ": " + quote(e.Description)
	}
	return text
}

// A MetadataError says that a metadata document is missing, malformed or not trustworthy.
// Nothing of it is used.
type MetadataError struct {
	// URL is the document's URL without the query. It may be empty.
	URL string
	// Reason says what was expected and what the document has. It may be empty.
	Reason string
	// Err is the cause, if there is one. If a document is at none of several places, it wraps one
	// MetadataError for each.
	Err error

	failure failure
}

// Error names the document and the reason.
func (e *MetadataError) Error() string {
	text := "the metadata"
	if e.URL != "" {
		text += " at " + quote(e.URL)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *MetadataError) Unwrap() error { return e.Err }

// An IssuerError says that credentials or a response of one authorization server were not
// used with another one.
type IssuerError struct {
	// Expected is the issuer that was expected.
	Expected string
	// Got is the actual issuer, "" if none was named.
	Got string
}

// Error names both issuers.
func (e *IssuerError) Error() string {
	return fmt.Sprintf("expected the issuer %s, got %s", quote(e.Expected), quote(e.Got))
}

// A StateError says that an authorization response does not belong to the current request.
type StateError struct{}

// Error is a constant text.
func (*StateError) Error() string {
	return "the authorization response does not belong to the current request"
}

// A RegistrationError says that an authorization server does not know this client, and that
// the client cannot register.
type RegistrationError struct {
	// Issuer is the authorization server.
	Issuer string
	// Reason says what is missing or failed.
	Reason string
	// Err is the error of dynamic registration, if it was tried.
	Err error
}

// Error names the server and the reason.
func (e *RegistrationError) Error() string {
	text := "the registration with " + quote(e.Issuer) + ": " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error of dynamic registration.
func (e *RegistrationError) Unwrap() error { return e.Err }

// A StepUpError says that a server demands scopes that the client cannot obtain: the token
// already has them, or requesting them did not help. It is [transport.ErrForbidden] under
// errors.Is.
type StepUpError struct {
	// Scopes are the scopes that the server demands.
	Scopes []string
	// Granted are the scopes of the token.
	Granted []string
}

// Error lists the scopes.
func (e *StepUpError) Error() string {
	return fmt.Sprintf("the server demands the scopes %s, and the token has %s", quote(strings.Join(e.Scopes, " ")), quote(strings.Join(e.Granted, " ")))
}

// Is reports whether target is [transport.ErrForbidden].
func (*StepUpError) Is(target error) bool { return target == transport.ErrForbidden }

// A LoginLimitError says that a server has made a person log in too often. Until
// Retry, the client starts no login, unless the program calls [Client.Login].
type LoginLimitError struct {
	// Max is [CodeFlow].MaxLogins.
	Max int
	// Retry is when the server may cause the next login.
	Retry time.Time
}

// Error names the limit and the time.
func (e *LoginLimitError) Error() string {
	return fmt.Sprintf("the server has demanded %d logins within %v; the next one is possible at %s", e.Max, LoginWindow, e.Retry.Format(time.RFC3339))
}

// A URLError says that a URL was refused: it is not fetched, not opened in a browser, and
// no secret is sent to it.
type URLError struct {
	// URL is the refused URL without user information, query and fragment; empty if it is
	// malformed.
	URL string
	// Reason says why.
	Reason string
}

// Error names the URL and the reason.
func (e *URLError) Error() string { return fmt.Sprintf("the URL %s: %s", quote(e.URL), e.Reason) }

// An AnswerError says that a token response of an authorization server cannot be used.
type AnswerError struct {
	// Issuer is the authorization server.
	Issuer string
	// Err says what was expected.
	Err error
}

// Error names the server and what was expected.
func (e *AnswerError) Error() string {
	return "the token response of " + quote(e.Issuer) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// A RevocationError says that an authorization server did not confirm that it has revoked the
// tokens of a logout.
type RevocationError struct {
	// Issuer is the authorization server.
	Issuer string
	// Err is the cause.
	Err error
}

// Error names the server and the cause.
func (e *RevocationError) Error() string {
	return "the tokens were not revoked by " + quote(e.Issuer) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *RevocationError) Unwrap() error { return e.Err }

// A StoreError says that a [TokenStore] failed or holds a malformed value.
type StoreError struct {
	// Op is the operation, such as "load a token".
	Op string
	// Err is the cause.
	Err error
}

// Error names the operation and the cause.
func (e *StoreError) Error() string { return "the token store: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// isCode reports whether an error is an [*Error] with a code.
func isCode(err error, code string) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Code == code
}

// quote quotes text of a peer, bounded and on one line.
func quote(text string) string { return jsonscan.Quote(text) }

// maxShown is how much text of a peer an error repeats, in bytes.
const maxShown = 256

// excerpt returns the beginning of a peer's text.
func excerpt(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxShown)], "")
}
