// Package webhook is what the two ends of webhook deliveries share: secrets and control bodies
// (SEP-3415, Events). Package internal/webhook/signature signs and verifies; server/webhook sends, and
// client/webhook receives.
package webhook
