// Package webhook receives the events of servers at a callback URL (SEP-3415, Webhook-Based
// Delivery).
//
// A [Receiver] is an http.Handler for the callback URL. [Subscribe] subscribes to an event of a
// server, and refreshes the subscription until it is closed:
//
//	receiver, err := webhook.New(nil)
//	http.Handle("/hooks", receiver)
//	...
//	sub, err := webhook.Subscribe(ctx, session, receiver, "https://example.com/hooks", "incident.created", nil,
//		func(ctx context.Context, d webhook.Delivery) error {
//			return save(ctx, d) // after an error, the server sends the delivery again
//		}, nil)
//	...
//	err = sub.Close(ctx)
//
// A program stores [Delivery].Cursor with each delivery, and passes the last one as
// [SubscribeOptions].Cursor after a restart. One Receiver serves the subscriptions of all sessions
// and servers, with one URL or several.
//
// A program that does not subscribe itself, for example because another process does, uses
// [Receiver.Register]. [Registration.Secret] is the secret for events/subscribe, and
// [Registration.Bind] gets the id of its result.
//
// # Guarantees
//
//  1. A delivery reaches its handler only with a valid signature and a timestamp within 5 minutes.
//     The data are from the server's systems, and are not trusted.
//  2. A delivery is acknowledged after its handler has returned nil. With an error it is answered
//     503, and the server sends it again. A gap that the server reports in the result of
//     events/subscribe is passed to the handler until it returns nil.
//  3. A delivery with a webhook-id that was acknowledged is acknowledged again without its handler,
//     if it is one of the last ids; see Options.Remember.
//  4. The handler of one registration is called by one goroutine at a time, in the order in which
//     deliveries arrive.
//  5. Challenges are answered by the Receiver. On the first one it learns the id of a subscription.
//     The ids of two servers may be equal: the signature decides which subscription gets a delivery,
//     so a server cannot take the deliveries of another one.
//  6. Deliveries at a time, their length, registrations and remembered ids are bounded. At most 4
//     deliveries of one registration are in progress.
//
// Package server/webhook is the sending end.
package webhook
