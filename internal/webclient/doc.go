// Package webclient is what the clients of the HTTP transports have in common: how
// they reach a server, which redirects they follow, what the program adds to their
// requests, and what they tell of an answer that is no message.
package webclient
