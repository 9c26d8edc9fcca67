// Package quota limits what the clients of an endpoint use at a time: sessions, calls,
// subscriptions, bytes of large messages and lines of the log.
package quota
