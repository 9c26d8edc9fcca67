// Package signature signs and verifies the requests of webhook deliveries, by the profile of
// Standard Webhooks in SEP-3415.
//
// The signatures are those of github.com/standard-webhooks. This package adds what the profile
// requires beyond it: bounded headers, several secrets, and ids without line breaks or spaces.
package signature
