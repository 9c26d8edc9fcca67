// Package backoff computes the pauses between attempts. Each pause is twice as long as the
// one before, up to a limit, with jitter, so that clients that have lost the same server do
// not reconnect at the same time.
package backoff
