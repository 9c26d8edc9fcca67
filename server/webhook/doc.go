// Package webhook delivers the events of a server to callback URLs (SEP-3415, Webhook-Based
// Delivery).
//
// A [delivery.Deliverer] keeps the subscriptions and what is to be delivered in a store, so any replica of
// the server may deliver, and nothing is lost when one of them ends:
//
//	deliverer, err := webhook.New(&webhook.Options{Store: store, Keys: keys})
//
// The server calls its methods. Give it to the server that has the events.
//
// # Guarantees
//
//  1. Order: the events of a subscription are delivered one after the other, in the order of their
//     source. An event is delivered when the one before was acknowledged or abandoned.
//  2. At least once: the position of a subscription is stored after each acknowledged event. If a
//     replica ends before that, another delivers the event again, with the same webhook-id.
//  3. One replica at a time delivers to a subscription. When a replica ends without warning,
//     another takes over after six times Options.Timeout, by default a minute. The clocks of replicas
//     may differ by some seconds; if they differ by more than three times Options.Timeout, an event
//     may be delivered twice.
//  4. Attempts: an event is acknowledged by a status 2xx, and abandoned by 410 and 413. After other
//     responses, and after redirects, which are not followed, it is sent again after pauses that
//     grow from Options.RetryPause, and not before Retry-After. The number of attempts and their time
//     are bounded, by default by 15 minutes; then the event is abandoned.
//  5. Suspension: when an endpoint has accepted nothing for an hour, deliveries wait until the
//     client refreshes the subscription. Events wait in the source.
//  6. Consent: nothing is delivered to a URL before its endpoint has answered a challenge, for each
//     principal, unless Options.Verified returns true.
//  7. Addresses: https and public addresses only, which are checked when a connection is made. A
//     connection is kept for 30 seconds after use. Redirects are not followed.
//  8. Secrets: what the store contains is encrypted with Options.Keys.
//  9. Limits: subscriptions, also for each principal; deliveries at a time, also for each principal
//     and each host; 256 KiB for a delivery, and 4 KiB of a response. In a minute, a replica sends at
//     most 100 challenges for one principal and 30 to one host.
//
// Package client/webhook is the receiving end.
package webhook
