// Package httpclient sends the requests of the HTTP transports.
//
//   - [Client] sends requests to one server, with the program's header and its
//     httptransport.Authorizer, and follows only redirects that keep the request as it is.
//   - [Body] is a request body in a pooled buffer.
//   - [Progress] records how far a message got.
//   - [ReadStatusError], [DeliveryOf] and [NotReached] turn responses and network failures
//     into errors.
package httpclient
