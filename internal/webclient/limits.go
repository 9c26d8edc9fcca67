package webclient

import "time"

const (
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 3
	// maxResponseHeader is how long the header of a response may be, in bytes.
	maxResponseHeader = 256 << 10
	// maxExcerpt is how much of the body of a refusal is kept, in bytes.
	maxExcerpt = 256
	// maxDrained is how much is read of a body that nobody wants, and drainTimeout how
	// long that may take.
	maxDrained   = 64 << 10
	drainTimeout = time.Second
	// connectTimeout bounds connecting, and the TLS handshake again.
	connectTimeout = 30 * time.Second
	// lentFrom is from how many bytes on the memory of a text is given back: so much more
	// than the piece that the header of a smaller one leaves in.
	lentFrom = 64 << 10
	// writeBuffer is the size of a request, header and all, that leaves as one piece.
	writeBuffer = 16 << 10
	// aliveInterval is how often a silent connection is asked for a sign of life; it is
	// given up when two are missed.
	aliveInterval = 15 * time.Second
	// maxIdle is how many connections without a request are kept to one server, and
	// idleTimeout for how long.
	maxIdle     = 64
	idleTimeout = 90 * time.Second
)
