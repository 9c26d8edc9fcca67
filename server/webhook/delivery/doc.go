// Package delivery has the types between a server and the deliverer of its webhooks (SEP-3415,
// Webhook-Based Delivery).
//
// Most programs need only package server/webhook, which implements [Deliverer], and do not import this
// package:
//
//	hooks, err := webhook.New(&webhook.Options{Store: store, Keys: keys})
//	s := server.New(info, &server.Options{Webhooks: hooks})
//
// Use this package to wrap that deliverer, for example to count subscriptions, or to write another.
// Package server calls the methods of its [Deliverer] and is its [Source]. It imports this package and
// not server/webhook, so a server without webhooks links no HTTP client.
package delivery
