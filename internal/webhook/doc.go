// Package webhook is what the two ends of webhook deliveries share: secrets, control bodies, and
// the types between a server and the package that delivers its events (SEP-3415, Events).
//
// Package server gives events to a [Deliverer], which server/webhook implements. They meet in
// this package, so that a server without webhooks links no HTTP stack. Package
// internal/webhook/signature signs and verifies; client/webhook receives.
package webhook
