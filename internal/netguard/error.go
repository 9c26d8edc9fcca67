package netguard

import (
	"fmt"
	"net/http"
	"net/url"
)

// A RefusedError is a URL, or an address that it leads to, that is not fetched. Nothing
// was sent there.
type RefusedError struct {
	// URL is the one refused, without user information, query and fragment.
	URL string
	// Reason says why, and names the address if it is about one.
	Reason string
}

// Error names the URL and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%.*q is not fetched: %s", maxShown, e.URL, e.Reason)
}

// A SizeError is an answer whose body is longer than it may be.
type SizeError struct {
	// Max is how long it may be, in bytes.
	Max int64
}

// Error names the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the answer is longer than %d bytes", e.Max)
}

// A StatusError is an answer that is not a success.
type StatusError struct {
	// Status is the status code.
	Status int
}

// Error names the status.
func (e *StatusError) Error() string {
	if name := http.StatusText(e.Status); name != "" {
		return fmt.Sprintf("the answer has status %d %s", e.Status, name)
	}
	return fmt.Sprintf("the answer has status %d", e.Status)
}

// withoutSecrets is a URL as an error may show it.
func withoutSecrets(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}
