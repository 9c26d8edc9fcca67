// Package quota limits what the clients of an endpoint use at a time: sessions, calls,
// subscriptions, bytes of large messages and lines of the log. [Retained] limits the bytes that
// they leave behind in a server.
package quota
