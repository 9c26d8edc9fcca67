// Package wire has what responses to requests with and without a session have in common: media types, JSON and streams of
// events.
package wire
