// Package webhook receives the events of servers at a callback URL (SEP-3415, Webhook-Based
// Delivery).
//
// A [Receiver] is an http.Handler for the callback URL. Each subscription has a secret of its own,
// which [Receiver.Register] creates before the client subscribes:
//
//	receiver, err := webhook.New(nil)
//	http.Handle("/hooks/mcp", receiver)
//	...
//	registration, err := receiver.Register(func(ctx context.Context, d webhook.Delivery) error {
//		return save(ctx, d) // an error has the server send the delivery again
//	})
//	secret := registration.Secret() // for events/subscribe
//	registration.Bind(id)           // the id of its result
//
// # Guarantees
//
//  1. A delivery reaches its handler only with a valid signature and a timestamp within 5 minutes.
//     The data are from the server's systems, and are not trusted.
//  2. A delivery is acknowledged after its handler has returned nil. With an error it is answered
//     503, and the server sends it again.
//  3. A delivery with a webhook-id that was acknowledged is acknowledged again without its handler,
//     if it is one of the last ids; see Options.Remember.
//  4. The handler of one registration is called by one goroutine at a time, in the order in which
//     deliveries arrive.
//  5. Challenges are answered by the Receiver. On the first one it learns the id of a subscription.
//     The ids of two servers may be equal: the signature decides which subscription gets a delivery,
//     so a server cannot take the deliveries of another one.
//  6. Deliveries at a time, their length, registrations and remembered ids are bounded.
//
// Package server/webhook is the sending end.
package webhook
