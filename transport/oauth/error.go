package oauth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An Error is how an authorization server refuses. RFC 6749, sections 4.1.2.1 and 5.2.
type Error struct {
	// Code is the error's name, such as "invalid_grant".
	Code string
	// Description is what the server says of it, at most 256 bytes; it may be empty.
	Description string
	// Status is the status code of HTTP; 0 when a browser has brought the answer.
	Status int
}

// Error quotes what the server says.
func (e *Error) Error() string {
	text := "the authorization server refuses with " + quote(e.Code)
	if e.Description != "" {
		text += ": " + quote(e.Description)
	}
	return text
}

// A MetadataError is a metadata document that is missing, malformed or not to be
// trusted. What it names is not used.
type MetadataError struct {
	// URL is where the document is, without its query; empty when none was found.
	URL string
	// Reason says what was expected, and what came.
	Reason string
	// Err is what went wrong in fetching it, if that did.
	Err error
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

// Unwrap is what went wrong in fetching the document.
func (e *MetadataError) Unwrap() error { return e.Err }

// An IssuerError is credentials or an answer of one authorization server that were
// about to be used with another.
type IssuerError struct {
	// Expected is the issuer that was expected.
	Expected string
	// Got is the other one, "" if none was named.
	Got string
}

// Error names both.
func (e *IssuerError) Error() string {
	return fmt.Sprintf("expected the issuer %s, got %s", quote(e.Expected), quote(e.Got))
}

// A StateError is an answer to another authorization request than the one under way.
type StateError struct{}

// Error says so.
func (*StateError) Error() string {
	return "the answer belongs to another authorization request, or to none"
}

// A RegistrationError is that an authorization server does not know this client, and
// that there is no way to tell it.
type RegistrationError struct {
	// Issuer is the authorization server.
	Issuer string
	// Reason says what was tried.
	Reason string
	// Err is how registering failed, if it was tried.
	Err error
}

// Error names the server and the reason.
func (e *RegistrationError) Error() string {
	text := "registering with " + quote(e.Issuer) + ": " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap is how registering failed.
func (e *RegistrationError) Unwrap() error { return e.Err }

// A StepUpError is that a server demands scopes that cannot be got: the token has them
// already, or asking for them has not helped.
type StepUpError struct {
	// Scopes are those that the server demands.
	Scopes []string
	// Granted are those that the token has.
	Granted []string
}

// Error lists the scopes.
func (e *StepUpError) Error() string {
	return fmt.Sprintf("the server demands the scopes %s, and the token has %s", quote(strings.Join(e.Scopes, " ")), quote(strings.Join(e.Granted, " ")))
}

// A URLError is a URL that is not used: not fetched, not opened in a browser, not sent
// a secret.
type URLError struct {
	// URL is the one refused, without user information, query and fragment; empty if it
	// cannot be read.
	URL string
	// Reason says why.
	Reason string
}

// Error names the URL and the reason.
func (e *URLError) Error() string { return fmt.Sprintf("the URL %s: %s", quote(e.URL), e.Reason) }

// A AnswerError is an answer of an authorization server with a token that cannot be used.
type AnswerError struct {
	// Issuer is the authorization server.
	Issuer string
	// Err says what was expected.
	Err error
}

// Error names the server and what was expected.
func (e *AnswerError) Error() string { return "a token of " + quote(e.Issuer) + ": " + e.Err.Error() }

// Unwrap says what was expected.
func (e *AnswerError) Unwrap() error { return e.Err }

// A StoreError is that a [TokenStore] has failed, or holds what cannot be read.
type StoreError struct {
	// Op is what was being done, such as "load".
	Op string
	// Err is what went wrong.
	Err error
}

// Error says what was being done, and what went wrong.
func (e *StoreError) Error() string { return "the token store: " + e.Op + ": " + e.Err.Error() }

// Unwrap is what went wrong.
func (e *StoreError) Unwrap() error { return e.Err }

// isCode tells whether an authorization server has refused with a code.
func isCode(err error, code string) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Code == code
}

// quote shows a peer's words, bounded and in one line.
func quote(text string) string { return jsonscan.Quote(text) }

// excerpt is the beginning of a peer's words.
func excerpt(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxShown)], "")
}
