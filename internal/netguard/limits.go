package netguard

import "time"

// Defaults of [Options].
const (
	// DefaultTimeout bounds a fetch from looking up the name to the last byte.
	DefaultTimeout = 10 * time.Second
	// DefaultMaxBody is how long a body may be, in bytes.
	DefaultMaxBody = 1 << 20
)

const (
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 3
	// maxHeader is how long the header of an answer may be, in bytes.
	maxHeader = 256 << 10
	// maxName is how long a name may be, in bytes. RFC 1035, section 2.3.4.
	maxName = 253
	// maxShown is how much of a URL an error repeats, in bytes.
	maxShown = 256
)
