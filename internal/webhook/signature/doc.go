// Package signature signs and verifies the requests of webhook deliveries, by the profile of
// Standard Webhooks in SEP-3415.
//
// The signatures are made as by github.com/standard-webhooks. This package adds the further requirements of the
// profile: bounded headers, several secrets, and ids without line breaks or spaces.
package signature
